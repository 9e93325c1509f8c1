/** One lease id at the newest term. */
export interface HeadLease {
  readonly leaseId: string;
  readonly holder: string;
  /** The least `expires_at_ns` of the rows with this term and lease id: a tombstone ends the lease wherever it stands. */
  readonly expiresAtNs: bigint;
}

/** The rows at the newest term of a lease, newest lease id first in the table's own order. Term 0 with no leases: never claimed. */
export interface Head {
  readonly term: bigint;
  readonly leases: readonly HeadLease[];
  /** The server's clock when it answered; 0 when there are no leases. */
  readonly nowNs: bigint;
}

/** What a claim writes; the table stamps it: acquired at the server's now, expiring `ttlMs` later. */
export interface ClaimRow {
  readonly name: string;
  readonly term: bigint;
  readonly leaseId: string;
  readonly holder: string;
  readonly ttlMs: number;
}

/**
 * The storage that the lease protocol runs over. What it must promise:
 *
 * - Rows are only ever added. `insertClaim` and `insertTombstone` are unconditional; only the table's own clock stamps them.
 * - `readHead` and `readTerm` see every insert that was answered before they were sent (linearisable), or fail.
 * - Lease ids of one term have one total order, the same for `readHead` and for the fence.
 * - Every statement ends by the deadline scope in force (deadline-http) and fails with `outcome`: `not-sent` or `refused` only
 *   when it has certainly written nothing.
 *
 * A statement that failed as `unknown` may still land, later or partly. The protocol allows for it.
 */
export interface LeaseTable {
  /**
   * Asked once before the first claim: rejects with CONFIG_INVALID when the server is one on which the promises above do not hold. Left
   * out where there is nothing to ask.
   */
  checkServer?(): Promise<void>;
  /** Creates the storage if it is absent. Safe to call at any time, by many at once. */
  create(): Promise<void>;
  readHead(name: string): Promise<Head>;
  insertClaim(claim: ClaimRow): Promise<void>;
  /** All lease ids at exactly this term, with their least expiry. */
  readTerm(name: string, term: bigint): Promise<readonly HeadLease[]>;
  /** Ends the lease: a row at its own term that expires when it is stamped. */
  insertTombstone(lease: { name: string; term: bigint; leaseId: string; holder: string }): Promise<void>;
  /** Called when the keeper that made this table itself is stopped. Left out where there is nothing to end. */
  close?(): Promise<void>;
  /** The condition under which a statement of this holder may take effect, evaluated by the table with its own clock. */
  fence(lease: { name: string; term: bigint; leaseId: string }): Fence;
}

/**
 * A condition for `INSERT INTO t SELECT … WHERE <predicate>`: true only while this lease stands alone at the newest term and expires
 * strictly later than the server's now + publishTimeoutMs + clockSkewMs. A statement that is fenced out adds no row and reports no
 * error, so read back what you wrote.
 */
export interface Fence {
  readonly leaseId: string;
  /** The term when the fence was made; renewals raise it, and the fence stays good. */
  readonly term: bigint;
  /** A boolean SQL expression; its parameters are named `hf_…`. */
  readonly predicate: string;
  /** `query_params` for the predicate. */
  readonly params: Readonly<Record<string, unknown>>;
  /**
   * `clickhouse_settings` without which the fence does not hold: the server must end the statement within publishTimeoutMs, and on
   * several servers it must read and write consistently.
   */
  readonly settings: Readonly<Record<string, string | number>>;
}
