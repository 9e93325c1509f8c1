import type { ClickHouseClient } from "@clickhouse/client";
import type { Clock } from "@holdfast/deadline-http";
import type { LeaseOptions } from "./config.js";
import type { LeaseLoss, Phase } from "./keeper-state.js";
import type { Fence, LeaseTable } from "./lease-table.js";
import type { Random } from "./prng.js";

export interface LeaseKeeperOptions {
  /** Name of the lease: who uses the same name in the same table competes for it. */
  readonly name: string;
  /**
   * The ClickHouse client that says where the lease's table is and who asks; not closed and not changed. The lease makes one connection of
   * its own like it, so that no other request queues before a renewal; `stop()` closes that. A client with an injected `http_agent` is used
   * as it is: give the lease a client of its own then. Needed unless `leaseTable` is given.
   */
  readonly client?: ClickHouseClient;
  readonly database?: string;
  /** Default "holdfast_publisher_lease". */
  readonly table?: string;
  /** Another storage than a ClickHouse table. */
  readonly leaseTable?: LeaseTable;
  /** Short for `lease.ttlMs`. */
  readonly ttlMs?: number;
  readonly lease?: LeaseOptions;
  /** Longest single request to the catalog. Default 60000, at least 2 × lease.publishTimeoutMs. */
  readonly requestTimeoutMs?: number;
  /** Name of this holder in the rows, 1 to 256 bytes. Default host:pid:random. */
  readonly holder?: string;
  /**
   * What a lost lease leads to. "no" (default): nothing, claim again yourself. "keep-trying": claim again by itself, for ever.
   * "latch": so too, but give up for good once others refused for 2 × lease.ttlMs.
   */
  readonly reacquire?: "latch" | "keep-trying" | "no";
  /** Look for the lease table before the first claim, and create it when it is not there. Default true. */
  readonly createTable?: boolean;
  /**
   * For development: is told of settings that are allowed and probably not meant (default: a process warning), and turns on a watch that
   * tells, once for each stretch, when `exclusive` waits for something that is not a request of its own. Without it nothing is watched.
   */
  readonly onWarning?: (message: string) => void;
  readonly clock?: Clock;
  readonly random?: Random;
}

/** What `whileHeld` gives to its job. */
export interface Held {
  readonly leaseId: string;
  /** Aborted when the lease is lost or given back; its reason is a LEASE_LOST error. In time when the event loop is free, else in its first turn after. */
  readonly signal: AbortSignal;
  /**
   * Asks the clock, not the server. "unconfirmed": the clocks jumped in a way that nobody can explain (a paused VM, a stepped clock), and
   * no renewal has succeeded since; treat it as lost for anything that cannot be fenced.
   */
  check(): "held" | "unconfirmed" | "lost";
  /** Condition for statements of the job. Throws LEASE_LOST when the lease is gone. */
  fence(): Fence;
  /** As `Stretch.quarantine`: call it when a fenced statement of the job ended with unknown outcome. */
  quarantine(cause: unknown): void;
}

/** A short run of catalog requests under the lease lock: made by `LeaseKeeper.exclusive`. */
export interface Stretch {
  /** The lease that this stretch runs under. Requests made after its loss fail with LEASE_LOST, not sent. */
  readonly leaseId: string;
  /** Condition for statements that make something visible. Throws LEASE_LOST when the lease is gone. */
  fence(): Fence;
  /**
   * Says that a statement under the lease ended with unknown outcome: the lease is dropped without a tombstone and nothing is claimed
   * for lease.ttlMs, so that whatever still runs has ended before anyone holds the lease again.
   */
  quarantine(cause: unknown): void;
}

/** JSON-safe snapshot of a keeper. */
export interface LeaseStatus {
  readonly state: Phase["s"];
  readonly holder: string;
  readonly leaseId?: string;
  /** Decimal digits. */
  readonly term?: string;
  /** End of the quarantine on the keeper's clock (`clock.now()`, this process only). */
  readonly quarantinedUntilMs?: number;
  readonly renewals: number;
  readonly reacquisitions: number;
  /** Timeouts in a row that cost the lease; cleared once a lease was held for 2 × lease.ttlMs. */
  readonly leaseTimeouts: number;
  /** From the third such timeout on: the settings that decide, with their values. */
  readonly leaseTimeoutError: string | null;
  readonly lastError: string | null;
  /** Holder named by the last refusal, until we hold again. */
  readonly heldBy?: string;
  /** The newest lease that ended and why, a released one included. */
  readonly lastLoss?: LeaseLoss;
}
