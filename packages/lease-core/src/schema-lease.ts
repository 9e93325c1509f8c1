import { hostname } from "node:os";
import type { ClickHouseClient } from "@clickhouse/client";
import { CanceledError, systemClock, type Clock, type Instant } from "@holdfast/deadline-http";
import { bind } from "@holdfast/deadline-http/clickhouse";
import { duration, holderName, leaseName } from "./config.js";
import { LeaseError } from "./errors.js";
import { randomHex, systemRandom, type Random } from "./prng.js";
import { isLiveClaim, readSchemaLeaseRow, schemaLeaseError, type SchemaLeaseRow } from "./schema-lease-row.js";
import { defaultSchemaLeaseTable, schemaLeaseSql, type SchemaLeaseSql } from "./schema-lease-sql.js";
import { qualified } from "./sql.js";

export interface SchemaLeaseOptions {
  /** Not closed and not changed. */
  readonly client: ClickHouseClient;
  /** Name of the lease: appliers of one schema use the same. */
  readonly name: string;
  readonly database?: string;
  /** Default "holdfast_schema_lease". */
  readonly table?: string;
  /** Name in the row. Default hostname/8 random hex digits, new for each instance. */
  readonly holder?: string;
  /** How long a claim stands. There is no renewal: it must outlast the work. Default 300000, at least 1000. */
  readonly leaseMs?: number;
  /** Pause between the claim and the read that decides it. Default 500. */
  readonly settleMs?: number;
  /** Pause between looks while another holds it. Default 2000. */
  readonly pollMs?: number;
  /** Give up a claim that the deciding read does not show. Default false: no sign of a later claim means that ours stands. */
  readonly strictReadback?: boolean;
  /** Longest single request. Default 60000. */
  readonly requestTimeoutMs?: number;
  readonly clock?: Clock;
  readonly random?: Random;
}

/** JSON-safe. */
export interface SchemaLeaseStatus {
  readonly state: "held" | "held-elsewhere" | "free";
  /** Our own name. */
  readonly holder: string;
  /** The name in the row, while a live claim stands. */
  readonly heldBy?: string;
  /** Wall clock, ms since 1970. */
  readonly expiresAtMs?: number;
  /** Claims that took too long from their free read to their answer, and so were left to expire. */
  readonly stalledClaims: number;
}

interface Claim {
  readonly acquiredMs: number;
  readonly expiresMs: number;
}

/**
 * A lease for work on a schema: claim, let rivals' claims settle, look again, and hold only if the latest claim is one's own.
 *
 * Exactly one claimer holds when every claim lands within `settleMs` of its peers and each claimer reads its own insert back. It is
 * not renewed and fences nothing; replicas whose reads lag behind `settleMs` can let two hold. See docs/protocols/schema-lease.md.
 */
export class SchemaLease implements AsyncDisposable {
  readonly holder: string;
  readonly name: string;
  readonly sql: SchemaLeaseSql;
  readonly #reads: ClickHouseClient;
  readonly #writes: ClickHouseClient;
  readonly #clock: Clock;
  readonly #leaseMs: number;
  readonly #settleMs: number;
  readonly #pollMs: number;
  readonly #strict: boolean;
  #claim: Claim | null = null;
  #stalledClaims = 0;

  /** @throws LeaseError CONFIG_INVALID. Sends nothing. */
  constructor(o: SchemaLeaseOptions) {
    const random = o.random ?? systemRandom;
    this.name = leaseName(o.name);
    this.holder = holderName("holder", o.holder ?? `${hostname()}/${randomHex(random, 8)}`);
    this.#clock = o.clock ?? systemClock;
    this.#leaseMs = duration("leaseMs", o.leaseMs, 300_000, 1000);
    this.#settleMs = duration("settleMs", o.settleMs, 500, 0);
    this.#pollMs = duration("pollMs", o.pollMs, 2000, 1);
    this.#strict = o.strictReadback ?? false;
    if (this.#leaseMs <= this.#settleMs) {
      throw new LeaseError(
        "CONFIG_INVALID",
        `leaseMs is ${this.#leaseMs}; it must be above settleMs (${this.#settleMs}), or a claim lapses before it is decided`,
      );
    }
    const common = {
      requestTimeoutMs: duration("requestTimeoutMs", o.requestTimeoutMs, 60_000, 1),
      clock: this.#clock,
    };
    this.#reads = bind(o.client, common);
    // Whatever the server's profile says about asynchronous inserts: a claim that is answered must be there to be read.
    this.#writes = bind(o.client, { ...common, settings: () => ({ async_insert: 0, insert_deduplicate: 0 }) });
    this.sql = schemaLeaseSql(qualified(o.table ?? defaultSchemaLeaseTable, o.database));
  }

  /** Creates the lease table if it is absent. Safe to call by many at once. @throws LeaseError SCHEMA_LEASE */
  async createTable(): Promise<void> {
    await this.#try("create the lease table", () => this.#writes.command({ query: this.sql.create }));
  }

  /**
   * Takes the lease, looking again every `pollMs` for up to `waitMs` (default 0: one attempt). False: somebody else has it, apply nothing.
   * When this instance holds it already, the table is asked whether it still does: a claim that has lapsed or was taken over is forgotten.
   * @throws LeaseError SCHEMA_LEASE when a read or write fails (no new claim is held then); CONFIG_INVALID for a wait that is no whole
   * number of ms, 0 or more; CANCELED when the signal is aborted.
   */
  async acquire(o: { waitMs?: number; signal?: AbortSignal } = {}): Promise<boolean> {
    const ends = this.#clock.now() + duration("waitMs", o.waitMs, 0, 0);
    const sleep = { ...(o.signal === undefined ? {} : { signal: o.signal }) };
    for (;;) {
      const readAt = this.#clock.recheck();
      const row = await this.#read();
      if (this.#live(row) && this.#ours(row)) return true;
      this.#claim = null;
      // A claim that nobody settles would keep everybody out for leaseMs.
      if (o.signal?.aborted) throw new CanceledError({ outcome: "not-sent", cause: o.signal.reason });
      if (!this.#live(row) && (await this.#claimFreed(row, readAt, sleep))) return true;
      const left = ends - this.#clock.now();
      if (left <= 0) return false;
      await this.#clock.sleep(Math.min(this.#pollMs, left), sleep);
    }
  }

  async #claimFreed(before: SchemaLeaseRow | null, readAt: Instant, sleep: { signal?: AbortSignal }): Promise<boolean> {
    const now = Math.floor(this.#clock.wallMs());
    // Above the row that it replaces, whatever our clock says: a slow clock would else never win.
    const acquiredMs = Math.max(now, before === null ? 0 : before.acquiredMs + 1);
    const claim: Claim = { acquiredMs, expiresMs: now + this.#leaseMs };
    await this.#write("write a claim", claim, false);
    // The settle outlasts rivals that found the lease free when we did; it cannot outlast our own delay. Such a claim may come after a
    // rival's settle was over, so it neither holds nor frees anything: it is left to expire.
    if (this.#clock.recheck() - readAt > this.#settleMs / 2) {
      this.#stalledClaims += 1;
      return false;
    }
    await this.#clock.sleep(this.#settleMs, sleep);
    const again = await this.#read();
    // Set aside for longer than the lease, we would begin the work under a claim that anybody may replace.
    if (!this.#stands(claim, again) || claim.expiresMs < Math.floor(this.#clock.wallMs())) return false;
    this.#claim = claim;
    return true;
  }

  /** Decides a claim by the row that FINAL names. */
  #stands(claim: Claim, row: SchemaLeaseRow | null): boolean {
    if (row !== null && row.holder === this.holder && row.acquiredMs === claim.acquiredMs) return !row.released;
    const later = row !== null && row.acquiredMs >= claim.acquiredMs;
    return !later && !this.#strict;
  }

  #live(row: SchemaLeaseRow | null): row is SchemaLeaseRow {
    return row !== null && isLiveClaim(row, this.#clock.wallMs());
  }

  #ours(row: SchemaLeaseRow): boolean {
    return this.#claim !== null && row.holder === this.holder && row.acquiredMs === this.#claim.acquiredMs;
  }

  /**
   * Frees the lease by a row with the stamp of our own claim: it replaces that claim and nothing later, so a release that comes after a
   * takeover frees nothing. Writes nothing when nothing is held. @throws LeaseError SCHEMA_LEASE; the claim is then left to expire.
   */
  async release(): Promise<void> {
    const claim = this.#claim;
    if (claim === null) return;
    this.#claim = null;
    await this.#write(
      "write the release",
      { acquiredMs: claim.acquiredMs, expiresMs: Math.floor(this.#clock.wallMs()) },
      true,
    );
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }

  /** Reads the row and says who has the lease. "held" only for a live claim of this instance. @throws LeaseError SCHEMA_LEASE */
  async status(): Promise<SchemaLeaseStatus> {
    const row = await this.#read();
    const own = { holder: this.holder, stalledClaims: this.#stalledClaims };
    if (!this.#live(row)) return { state: "free", ...own };
    return {
      state: this.#ours(row) ? "held" : "held-elsewhere",
      ...own,
      heldBy: row.holder,
      expiresAtMs: row.expiresMs,
    };
  }

  #read(): Promise<SchemaLeaseRow | null> {
    return this.#try("read the lease", () => readSchemaLeaseRow(this.#reads, this.sql.read, this.name));
  }

  async #write(what: string, claim: Claim, released: boolean): Promise<void> {
    await this.#try(what, () =>
      this.#writes.command({
        query: this.sql.write,
        query_params: {
          name: this.name,
          holder: this.holder,
          acquired_ms: String(claim.acquiredMs),
          expires_ms: String(claim.expiresMs),
          released: released ? 1 : 0,
        },
      }),
    );
  }

  async #try<T>(what: string, statement: () => Promise<T>): Promise<T> {
    try {
      return await statement();
    } catch (error) {
      throw schemaLeaseError(this.name, what, error);
    }
  }
}
