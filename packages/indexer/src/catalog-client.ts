import { Readable } from "node:stream";
import { finished } from "node:stream/promises";
import type { ClickHouseClient, ClickHouseSettings } from "@clickhouse/client";
import type { Clock } from "@holdfast/deadline-http";
import { bind, capSeconds, type Attempt } from "@holdfast/deadline-http/clickhouse";
import type { Fence, LeaseConfig } from "@holdfast/lease-core";
import { quoteIdentifier } from "./catalog/tables.js";

export type Parameters = Readonly<Record<string, unknown>>;

/** A row of values, in the order of the columns that it is inserted with. */
export type CompactRow = readonly unknown[];

/**
 * The kinds of statement that the catalog's protocol is made of. Each request ends by the deadline scope in force and by
 * `requestTimeoutMs`; errors are those of deadline-http and carry `outcome`.
 */
export interface CatalogClient {
  /** A read whose answer decides what is written next: sequentially consistent where the server has replicas. */
  decide<Row>(statement: string, parameters?: Parameters): Promise<Row[]>;
  /** An INSERT of rows, synchronous at the server: answered means readable. */
  insert(table: string, columns: readonly string[], rows: readonly CompactRow[]): Promise<void>;
  /** The same, from JSONCompactEachRow lines that were made before. */
  insertLines(table: string, columns: readonly string[], lines: string): Promise<void>;
  /** An INSERT … SELECT that carries the fence. Its server-side cap is the fence's, less when the lease ends earlier. */
  fenced(statement: string, parameters: Parameters, fence: Fence): Promise<void>;
  /** DDL, and INSERT … SELECT without a fence. */
  command(statement: string, parameters?: Parameters): Promise<void>;
  /** Statements sent so far. */
  readonly statements: number;
}

export type CatalogClientOptions = {
  readonly client: ClickHouseClient;
  readonly requestTimeoutMs: number;
  readonly clock?: Clock | undefined;
  readonly lease: Pick<LeaseConfig, "sequentialReads" | "quorum" | "publishTimeoutMs">;
};

/** Settings of a read that decides something. */
export function readSettings(lease: CatalogClientOptions["lease"]): ClickHouseSettings {
  const quoted: ClickHouseSettings = { output_format_json_quote_64bit_integers: 1 };
  return lease.sequentialReads ? { ...quoted, select_sequential_consistency: "1" } : quoted;
}

/**
 * Settings of an INSERT. Asynchronous, it would be answered before the rows can be read back. A null is only ever a field
 * that an older schema version did not have. With replicas, a sequentially consistent read sees it only with a quorum.
 */
export function insertSettings(lease: CatalogClientOptions["lease"]): ClickHouseSettings {
  const plain: ClickHouseSettings = { async_insert: 0, input_format_null_as_default: 1 };
  if (lease.quorum === null) return plain;
  const quorum = { insert_quorum: String(lease.quorum), insert_quorum_parallel: 0 } as const;
  return { ...plain, ...quorum, insert_quorum_timeout: lease.publishTimeoutMs };
}

/** The catalog's view of a ClickHouse client; the caller's client is left as it is. */
export function catalogClient(o: CatalogClientOptions): CatalogClient {
  const common = { requestTimeoutMs: o.requestTimeoutMs, ...(o.clock === undefined ? {} : { clock: o.clock }) };
  const bound = bind(o.client, common);
  const reads = readSettings(o.lease);
  const inserts = insertSettings(o.lease);
  let statements = 0;
  return {
    get statements() {
      return statements;
    },
    async decide<Row>(statement: string, parameters: Parameters = {}) {
      statements += 1;
      const result = await bound.query({
        query: statement,
        format: "JSONEachRow",
        query_params: { ...parameters },
        clickhouse_settings: reads,
        // A guard read may ask for many packs: too long for an URL, it goes as a form.
        use_multipart_params_auto: true,
      });
      return await result.json<Row>();
    },
    async insert(table, columns, rows) {
      const [first, ...rest] = columns;
      if (first === undefined || rows.length === 0) return;
      statements += 1;
      await bound.insert({
        table,
        columns: [quoteIdentifier(first), ...rest.map(quoteIdentifier)],
        values: rows,
        format: "JSONCompactEachRow",
        clickhouse_settings: inserts,
      });
    },
    async insertLines(table, columns, lines) {
      statements += 1;
      const { stream } = await bound.exec({
        query: `INSERT INTO ${table} (${columns.map(quoteIdentifier).join(", ")}) FORMAT JSONCompactEachRow`,
        values: Readable.from([Buffer.from(lines)], { objectMode: false }),
        clickhouse_settings: inserts,
      });
      // An INSERT answers nothing; an error in the middle of it would be found here.
      await finished(stream.resume());
    },
    async fenced(statement, parameters, fence) {
      statements += 1;
      const capped = bind(o.client, { ...common, settings: (attempt) => fencedSettings(fence, attempt) });
      await capped.command({ query: statement, query_params: { ...parameters, ...fence.params } });
    },
    async command(statement, parameters = {}) {
      statements += 1;
      await bound.command({
        query: statement,
        query_params: { ...parameters },
        clickhouse_settings: { async_insert: 0 },
      });
    },
  };
}

/**
 * Settings of one attempt of a fenced statement. The fence admits it for `publishTimeoutMs` from its evaluation on, so the
 * server must end it by then; and by the lease deadline, behind which nobody waits for its answer any more. `throw`, since
 * `break` would keep a part of the rows and report success.
 */
export function fencedSettings(fence: Pick<Fence, "settings">, attempt: Pick<Attempt, "msLeft">): ClickHouseSettings {
  const fenceCapMs = Math.round(Number(fence.settings["max_execution_time"]) * 1000);
  const cap = Number(capSeconds(Math.min(fenceCapMs, attempt.msLeft)));
  return {
    ...fence.settings,
    max_execution_time: cap,
    timeout_overflow_mode: "throw",
    async_insert: 0,
    insert_deduplicate: 0,
  };
}
