import type { ClickHouseClient, ClickHouseSettings } from "@clickhouse/client";
import type { Clock } from "@holdfast/deadline-http";
import { bind, capSeconds, type Attempt } from "@holdfast/deadline-http/clickhouse";
import { requireLeaseConfig, type LeaseConfig } from "./config.js";
import { LeaseError } from "./errors.js";
import type { ClaimRow, Fence, Head, HeadLease, LeaseTable } from "./lease-table.js";
import { ownConnection, type OwnConnection } from "./own-connection.js";
import { leaseSql, qualified, type LeaseSql } from "./sql.js";

/** Name of the lease table unless another is given. One table serves any number of leases. */
export const defaultLeaseTable = "holdfast_publisher_lease";

/**
 * Year and number of the oldest release that is asked at all. It has every setting that a lease statement carries (`insert_quorum = auto`
 * is the youngest of them); what was tested is in the README of the repository.
 */
export const leastServerVersion = [23, 8] as const;

export interface ClickHouseLeaseTableOptions {
  /**
   * Where the table is and who asks. The table makes a connection of its own like the client's, with one kept-alive socket, so that
   * nothing queues before a renewal; the client is neither changed nor closed. Only one with an injected `http_agent` is used as it is.
   */
  readonly client: ClickHouseClient;
  readonly config: LeaseConfig;
  readonly database?: string | undefined;
  readonly table?: string | undefined;
  readonly clock?: Clock | undefined;
}

/**
 * Settings of a lease INSERT for one attempt. The server is told to give up when the client does: `max_execution_time` and
 * `lock_acquire_timeout` are the time this very attempt has, to the millisecond. `throw`, since `break` would keep a part of the rows and
 * report success. Deduplication is off: two claims of one lease may be equal but for the stamp, and a dropped row would be a lost claim.
 */
export function claimSettings(config: LeaseConfig, attempt: Pick<Attempt, "msLeft">): ClickHouseSettings {
  const cap = Number(capSeconds(attempt.msLeft));
  const settings: ClickHouseSettings = {
    max_execution_time: cap,
    lock_acquire_timeout: cap,
    timeout_overflow_mode: "throw",
    async_insert: 0,
    insert_deduplicate: 0,
  };
  return { ...settings, ...quorumSettings(config, attempt.msLeft) };
}

/** Quorum of an INSERT with this much time left; empty without quorum. */
export function quorumSettings(config: LeaseConfig, msLeft: number): ClickHouseSettings {
  if (config.quorum === null) return {};
  return {
    insert_quorum: String(config.quorum),
    // Parallel quorum inserts make sequentially consistent reads promise nothing.
    insert_quorum_parallel: 0,
    insert_quorum_timeout: Math.max(1, Math.min(config.publishTimeoutMs, Math.floor(msLeft))),
  };
}

/** Settings of a read that decides something. */
export function decidingReadSettings(config: LeaseConfig): ClickHouseSettings {
  return config.sequentialReads ? { select_sequential_consistency: "1" } : {};
}

interface LeaseIdRow {
  readonly id: string;
  readonly held_by: string;
  readonly expires_ns: string;
}
type HeadRow = LeaseIdRow & { readonly head_term: string; readonly now_ns: string };

const nanoseconds = (ms: number) => (BigInt(ms) * 1_000_000n).toString();
const leaseOf = (row: LeaseIdRow): HeadLease => ({
  leaseId: row.id,
  holder: row.held_by,
  expiresAtNs: BigInt(row.expires_ns),
});

/** The lease table in ClickHouse. Statements and their safety argument: docs/protocols/publisher-lease.md. */
export class ClickHouseLeaseTable implements LeaseTable {
  readonly #reads: ClickHouseClient;
  readonly #claims: ClickHouseClient;
  readonly #plain: ClickHouseClient;
  readonly #config: LeaseConfig;
  readonly #connection: OwnConnection;
  /** The statement texts, for those who want to see or log them. */
  readonly sql: LeaseSql;

  constructor(o: ClickHouseLeaseTableOptions) {
    const { config } = o;
    // No bound of its own: whoever speaks the protocol sets one, with a name that says which settings are behind it.
    const common = o.clock === undefined ? {} : { clock: o.clock };
    this.#config = requireLeaseConfig(config);
    // The socket outlives the pause between two renewals, with one of them missed.
    this.#connection = ownConnection(o.client, Math.ceil(2 * config.renewAfterMs));
    const { client } = this.#connection;
    this.#plain = bind(client, common);
    this.#reads = bind(client, { ...common, settings: () => decidingReadSettings(config) });
    this.#claims = bind(client, { ...common, settings: (attempt) => claimSettings(config, attempt) });
    this.sql = leaseSql(qualified(o.table ?? defaultLeaseTable, o.database), config.topology === "replicated");
  }

  /** Whether the lease has a connection of its own; false with an injected `http_agent`. */
  get ownConnection(): boolean {
    return this.#connection.own;
  }

  /** Ends the connection of the lease; the client that was given stays open. */
  close(): Promise<void> {
    return this.#connection.close();
  }

  /** Refuses a server older than 23.8 with CONFIG_INVALID, naming both. */
  async checkServer(): Promise<void> {
    const result = await this.#plain.query({ query: this.sql.version, format: "JSONEachRow" });
    const [row] = await result.json<{ version: string }>();
    const version = row?.version ?? "";
    const [year, release] = /^(\d+)\.(\d+)\./.exec(version)?.slice(1).map(Number) ?? [];
    const [leastYear, leastRelease] = leastServerVersion;
    if (year !== undefined && release !== undefined) {
      if (year > leastYear || (year === leastYear && release >= leastRelease)) return;
    }
    throw new LeaseError(
      "CONFIG_INVALID",
      `the server says that its version is ${JSON.stringify(version)}; the lease needs ClickHouse ${leastYear}.${leastRelease} or newer`,
    );
  }

  async create(): Promise<void> {
    // Looked for first: who may not create tables can still use one that is there.
    const result = await this.#plain.query({ query: this.sql.exists, format: "JSONEachRow" });
    const [row] = await result.json<{ result: number }>();
    if (row?.result === 1) return;
    await this.#plain.command({ query: this.sql.create });
  }

  async readHead(name: string): Promise<Head> {
    const result = await this.#reads.query({ query: this.sql.head, format: "JSONEachRow", query_params: { name } });
    const rows = await result.json<HeadRow>();
    const first = rows[0];
    if (first === undefined) return { term: 0n, leases: [], nowNs: 0n };
    return { term: BigInt(first.head_term), leases: rows.map(leaseOf), nowNs: BigInt(first.now_ns) };
  }

  async insertClaim(claim: ClaimRow): Promise<void> {
    const { name, leaseId, holder } = claim;
    await this.#claims.command({
      query: this.sql.claim,
      query_params: { name, term: claim.term.toString(), lease_id: leaseId, holder, ttl_ns: nanoseconds(claim.ttlMs) },
    });
  }

  async readTerm(name: string, term: bigint): Promise<readonly HeadLease[]> {
    const result = await this.#reads.query({
      query: this.sql.term,
      format: "JSONEachRow",
      query_params: { name, term: term.toString() },
    });
    return (await result.json<LeaseIdRow>()).map(leaseOf);
  }

  async insertTombstone(lease: { name: string; term: bigint; leaseId: string; holder: string }): Promise<void> {
    await this.#claims.command({
      query: this.sql.tombstone,
      query_params: { name: lease.name, term: lease.term.toString(), lease_id: lease.leaseId, holder: lease.holder },
    });
  }

  fence(lease: { name: string; term: bigint; leaseId: string }): Fence {
    const { publishTimeoutMs, clockSkewMs } = this.#config;
    return {
      leaseId: lease.leaseId,
      term: lease.term,
      predicate: this.sql.fence,
      params: {
        hf_name: lease.name,
        hf_lease: lease.leaseId,
        hf_margin_ns: nanoseconds(publishTimeoutMs + clockSkewMs),
      },
      settings: {
        ...(decidingReadSettings(this.#config) as Record<string, string | number>),
        ...(quorumSettings(this.#config, publishTimeoutMs) as Record<string, string | number>),
        max_execution_time: Number(capSeconds(publishTimeoutMs)),
        timeout_overflow_mode: "throw",
      },
    };
  }
}
