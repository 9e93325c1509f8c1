import type { ClickHouseClient } from "@clickhouse/client";
import { systemClock, within, type Clock } from "@holdfast/deadline-http";
import { bind } from "@holdfast/deadline-http/clickhouse";
import { duration, leaseName } from "./config.js";
import { factsOf } from "./errors.js";
import { isLiveClaim, readSchemaLeaseRow, schemaLeaseError, type SchemaLeaseRow } from "./schema-lease-row.js";
import { defaultSchemaLeaseTable, schemaLeaseSql } from "./schema-lease-sql.js";
import { qualified } from "./sql.js";

/** Which schema lease to look at, and for how long at most. */
export interface ReadSchemaLeaseOptions {
  /** Not closed and not changed. */
  readonly client: ClickHouseClient;
  /** Name of the lease. That of a catalog is the name of its capture schema. */
  readonly name: string;
  /** Default: the client's. */
  readonly database?: string;
  /** Default "holdfast_schema_lease". */
  readonly table?: string;
  /** Longest wait for the answer, in ms. Default 60000. A deadline scope around the call binds as well. */
  readonly requestTimeoutMs?: number;
  /** Ends the read with `CANCELED`. */
  readonly signal?: AbortSignal;
  /** Default: the machine's. Its wall clock tells `held` from `lapsed`. */
  readonly clock?: Clock;
}

/** The claim that the row carries. Times are ms since 1970, by the wall clock of the applier that wrote them. */
export interface SchemaLeaseClaim {
  /** The holder as the row has it, character for character (what is not UTF-8 there is U+FFFD here). It may hold control characters. */
  readonly holder: string;
  /** The stamp of the claim. With the holder it identifies the claim. */
  readonly claimedAtMs: number;
}

/**
 * What the table says about one schema lease. JSON-safe.
 *
 * - `no-table`: the table does not exist, so no applier has ever run in this database.
 * - `unclaimed`: no row has this name. The lease was never claimed, or its last claim ended over a week ago and was cleared away.
 * - `held`: the claim is live, so no other applier can take the lease until `expiresAtMs` has passed. Its author holds the lease, is
 *   still settling, or has left the claim to expire: the row does not say which, nor whether the author is alive.
 * - `lapsed`: the claim expired at `expiresAtMs` and was not released. Its author was killed, or works on without the lease.
 * - `released`: the author gave the lease back at `releasedAtMs`.
 *
 * Only `held` keeps other appliers out. `readAtMs` is the reader's wall clock when the answer came; by it `held` differs from `lapsed`.
 */
export type SchemaLeaseReport = { readonly readAtMs: number } & (
  | { readonly state: "no-table" }
  | { readonly state: "unclaimed" }
  | ({ readonly state: "held" | "lapsed"; readonly expiresAtMs: number } & SchemaLeaseClaim)
  | ({ readonly state: "released"; readonly releasedAtMs: number } & SchemaLeaseClaim)
);

/** ClickHouse's code for a table that does not exist. */
const unknownTable = 60;

/**
 * Reads who has a schema lease, for people and programs that only want to know: one statement, which writes nothing. Every reader is
 * shown the same holder, the one that the row carries.
 *
 * It does not promise that the lease is still as reported when the report arrives; a replica that lags reports what it has. To take the
 * lease, or to ask whether one's own claim stands, use {@link SchemaLease}.
 *
 * @throws LeaseError `SCHEMA_LEASE` when the read fails, when it does not end within its bound (`timedOut`) and when there is no such
 *   database; `CONFIG_INVALID`, with nothing sent, for an empty name and for a timeout that is not a whole number of ms above 0.
 *   CanceledError `CANCELED` when the signal is aborted.
 */
export async function readSchemaLease(o: ReadSchemaLeaseOptions): Promise<SchemaLeaseReport> {
  const name = leaseName(o.name);
  const { clock = systemClock, signal } = o;
  const requestTimeoutMs = duration("requestTimeoutMs", o.requestTimeoutMs, 60_000, 1);
  const { read } = schemaLeaseSql(qualified(o.table ?? defaultSchemaLeaseTable, o.database));
  const bound = { name: "read of the schema lease", knobs: { requestTimeoutMs }, clock, signal };
  const client = bind(o.client, { clock });
  try {
    const row = await within(requestTimeoutMs, () => readSchemaLeaseRow(client, read, name), bound);
    return reportOf(row, clock.wallMs());
  } catch (error) {
    const { code, serverCode } = factsOf(error);
    if (serverCode === unknownTable) return { state: "no-table", readAtMs: Math.floor(clock.wallMs()) };
    if (code === "CANCELED") throw error;
    throw schemaLeaseError(name, "read the lease", error);
  }
}

/** What a row means at an instant of the wall clock; null where there is none. */
function reportOf(row: SchemaLeaseRow | null, wallMs: number): SchemaLeaseReport {
  const readAtMs = Math.floor(wallMs);
  if (row === null) return { state: "unclaimed", readAtMs };
  const claim = { holder: row.holder, claimedAtMs: row.acquiredMs };
  if (row.released) return { state: "released", readAtMs, ...claim, releasedAtMs: row.expiresMs };
  return { state: isLiveClaim(row, wallMs) ? "held" : "lapsed", readAtMs, ...claim, expiresAtMs: row.expiresMs };
}
