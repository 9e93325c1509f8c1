import { hostname } from "node:os";
import type { ClickHouseClient } from "@clickhouse/client";
import { systemClock, type Clock } from "@holdfast/deadline-http";
import { AsyncLocalStorage } from "node:async_hooks";
import { acquireWithin } from "./acquire.js";
import { ClickHouseLeaseTable } from "./clickhouse-lease-table.js";
import { leaseConfig, type LeaseConfig, type LeaseOptions } from "./config.js";
import { factsOf, LeaseError } from "./errors.js";
import { KeeperCore, type LeaseChange } from "./keeper-core.js";
import { type Phase } from "./keeper-state.js";
import type { Fence, LeaseTable } from "./lease-table.js";
import { randomHex, systemRandom, type Random } from "./prng.js";
import { refuseInStretch, runStretch, type Stretch } from "./stretch.js";

export interface LeaseKeeperOptions {
  /** Name of the lease: who uses the same name in the same table competes for it. */
  readonly name: string;
  /**
   * The ClickHouse client for the lease's statements; not closed and not changed. Give the lease one of its own
   * (`max_open_connections: 1`), so that no other request queues before a renewal. Needed unless `leaseTable` is given.
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
}

interface Job {
  readonly core: KeeperCore;
}
const jobs = new AsyncLocalStorage<Job>();

/**
 * Holds a lease, renews it, and says when it is over. Made by {@link createLeaseKeeper} or {@link acquireLease}; it must be stopped.
 * Guarantees, conditions and what is not promised: docs/protocols/publisher-lease.md.
 */
export class LeaseKeeper implements AsyncDisposable {
  /** Statements that made something visible under this keeper, counted by whoever makes them. */
  commits = 0;
  readonly reacquire: "latch" | "keep-trying" | "no";
  readonly name: string;
  readonly holder: string;
  readonly config: LeaseConfig;
  readonly #core: KeeperCore;
  readonly #jobs = new Set<Job>();
  readonly #waiters = new Set<() => void>();
  #stopping: Promise<void> | null = null;
  #stopped = false;

  /** @internal */
  constructor(core: KeeperCore) {
    this.#core = core;
    this.reacquire = core.o.reacquire;
    this.name = core.o.name;
    this.holder = core.o.holder;
    this.config = core.o.config;
  }

  /** Creates the lease table if it is absent. The first claim does so too (option `createTable`). */
  async createTable(): Promise<void> {
    await this.#core.createTable();
  }

  /**
   * Takes the lease, waiting up to `waitMs` (default lease.startWaitMs; 0 is one attempt) for another holder to release it or expire,
   * and starts renewing. Resolves at once when it is held already.
   * @throws LeaseError LEASE_HELD naming the holder and the wait; CLAIM_NOT_RECORDED; LEASE_QUARANTINED when a claim of ours timed out and
   * may still land; LEASE_LATCHED; the table's own error for anything but a timeout.
   */
  async acquire(o: { waitMs?: number; signal?: AbortSignal } = {}): Promise<void> {
    refuseInStretch("acquire()");
    this.#refuseStopped();
    this.#core.startLoop();
    await acquireWithin(this.#core, o.waitMs ?? this.config.startWaitMs, o.signal);
  }

  /**
   * One claim, if one is allowed now: not in quarantine and not before the pause after a refusal is over. True when the lease is held
   * afterwards. Refusals and failures are in `status()`, not thrown.
   */
  async tryAcquire(): Promise<boolean> {
    refuseInStretch("tryAcquire()");
    this.#refuseStopped();
    this.#core.startLoop();
    return this.#core.locked(async () => {
      const { phase } = this.#core.feed();
      if (phase.s === "held") return true;
      const free = phase.s === "none" || phase.s === "reacquiring" || phase.s === "released";
      if (!free || (phase.nextClaimAt !== null && this.#core.o.clock.now() < phase.nextClaimAt)) return false;
      return (await this.#core.claim(true)).result === "held";
    });
  }

  /**
   * Runs a job of any length while the lease is held, without the lock: the keeper renews meanwhile. The job learns of a loss by `signal`
   * and `check()` and must stop by itself; only fenced statements are stopped for it. Resolves with what `fn` gives, also after a loss.
   * @throws LeaseError LEASE_LOST, LEASE_QUARANTINED or LEASE_LATCHED when the lease is not held at the beginning.
   */
  async whileHeld<T>(fn: (held: Held) => Promise<T>): Promise<T> {
    const { leaseId } = this.#core.require();
    const job: Job = { core: this.#core };
    this.#jobs.add(job);
    try {
      return await jobs.run(job, () => fn(this.#heldView(leaseId)));
    } finally {
      this.#jobs.delete(job);
      this.#jobEnded();
    }
  }

  #heldView(leaseId: string): Held {
    const core = this.#core;
    const ours = () => {
      const lease = core.usable();
      return lease?.leaseId === leaseId ? lease : null;
    };
    return {
      leaseId,
      signal: core.lossSignal(leaseId),
      check: () => {
        const lease = ours();
        if (lease === null) return "lost";
        return core.unconfirmed(lease) ? "unconfirmed" : "held";
      },
      fence: () => {
        const lease = ours();
        if (lease === null) throw core.notHeld();
        return core.fence(lease);
      },
      quarantine: (cause) => {
        const message = `a statement under the lease ended with unknown outcome: ${factsOf(cause).message}`;
        core.feed({ e: "quarantine", leaseId, message });
      },
    };
  }

  /**
   * Runs a short stretch of catalog requests under the lease lock: each request is bounded by the lease deadline and preceded by a
   * renewal when one is due. Await nothing but such requests in it, since the lock keeps the keeper's own renewals out. Inside a stretch
   * of the same keeper it joins that stretch.
   * @throws LeaseError LEASE_LOST, LEASE_QUARANTINED or LEASE_LATCHED when the lease is not held; NESTED_LEASE inside another keeper's stretch.
   */
  exclusive<T>(fn: (stretch: Stretch) => Promise<T>): Promise<T> {
    return runStretch(this.#core, fn);
  }

  /** Says that a statement made something visible under this keeper. */
  countCommit(): void {
    this.commits += 1;
  }

  /**
   * Gives the lease back: jobs of `whileHeld` are told by their signal and waited for (renewing meanwhile, for lease.ttlMs at most), then
   * a tombstone lets the next claimant in at once. Nothing is written when no lease is held, in quarantine above all. A tombstone that
   * fails is noted in `status().lastError`; the row then expires by itself. `tryAcquire` and `acquire` take the lease again.
   */
  async release(): Promise<void> {
    refuseInStretch("release()");
    const core = this.#core;
    core.feed({ e: "stand-down" });
    const held = core.usable();
    if (held !== null) {
      core.leaving = held.leaseId;
      core.signalLoss(held.leaseId, "released", "the lease is being given back");
      await this.#jobsEnded();
    }
    await core.locked(() => this.#giveBack());
  }

  async #giveBack(): Promise<void> {
    const core = this.#core;
    const { phase } = core.feed({ e: "stand-down" });
    if (phase.s !== "held") return;
    const { lease } = phase;
    if (this.#waitingFor().length > 0) {
      const message = `jobs under the lease did not end within lease.ttlMs (${this.config.ttlMs}) of being told; the lease is left to expire`;
      core.feed({ e: "quarantine", leaseId: lease.leaseId, message });
      core.feed({ e: "stand-down" });
      return;
    }
    let message: string | null = null;
    try {
      await core.coordinator.release(lease);
    } catch (error) {
      message = `the release could not be written: ${factsOf(error).message}`;
    }
    core.feed({ e: "released", leaseId: lease.leaseId, message });
  }

  /** Jobs other than the one that asks. */
  #waitingFor(): Job[] {
    const own = jobs.getStore();
    return [...this.#jobs].filter((job) => job !== own);
  }

  /** Waits until no other job runs, for lease.ttlMs at most. */
  async #jobsEnded(): Promise<void> {
    const time = { isUp: false };
    const end = this.#core.o.clock.setTimer(this.config.ttlMs, () => {
      time.isUp = true;
      this.#jobEnded();
    });
    while (this.#waitingFor().length > 0 && !time.isUp) {
      await new Promise<void>((resolve) => this.#waiters.add(resolve));
    }
    end.cancel();
  }

  #jobEnded(): void {
    for (const look of this.#waiters) look();
    this.#waiters.clear();
  }

  /** Ends the keeper: gives the lease back as `release` does, then the loop ends. Idempotent. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async #stop(): Promise<void> {
    refuseInStretch("stop()");
    this.#stopped = true;
    await this.release();
    await this.#core.stopLoop();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  #refuseStopped(): void {
    if (this.#stopped)
      throw new LeaseError("LEASE_LOST", `the keeper of lease "${this.name}" was stopped; make a new one`);
  }

  /** What the keeper knows now. Never says "held" past the lease deadline. */
  status(): LeaseStatus {
    const core = this.#core;
    const state = core.feed();
    const { phase } = state;
    const leaseTimeoutError = core.timeoutError();
    const lastError =
      leaseTimeoutError === null ? state.lastError : `${leaseTimeoutError}; last: ${state.lastError ?? "none"}`;
    return {
      state: phase.s,
      holder: this.holder,
      ...(phase.s === "held" ? { leaseId: phase.lease.leaseId, term: phase.lease.term.toString() } : {}),
      ...(phase.s === "quarantined" ? { quarantinedUntilMs: phase.until } : {}),
      renewals: state.renewals,
      reacquisitions: state.reacquisitions,
      leaseTimeouts: state.timeouts,
      leaseTimeoutError,
      lastError,
      ...(state.rival === null ? {} : { heldBy: state.rival }),
    };
  }

  /** Calls `listener` for each change of state, synchronously. Returns what ends that. */
  onChange(listener: (change: LeaseChange) => void): () => void {
    return this.#core.onChange(listener);
  }
}

function holderName(given: string | undefined, random: Random): string {
  const holder = given ?? `${hostname()}:${process.pid}:${randomHex(random, 8)}`;
  const bytes = Buffer.byteLength(holder);
  if (bytes < 1 || bytes > 256) {
    throw new LeaseError("CONFIG_INVALID", `lease.holder is ${bytes} bytes long; it must be 1 to 256 bytes`);
  }
  return holder;
}

/**
 * Makes a keeper that holds nothing yet. No request is sent.
 * @throws LeaseError CONFIG_INVALID with the numbers and paths of the settings that do not fit.
 */
export function createLeaseKeeper(o: LeaseKeeperOptions): LeaseKeeper {
  const lease: LeaseOptions = { ...o.lease, ...(o.ttlMs === undefined ? {} : { ttlMs: o.ttlMs }) };
  const config = leaseConfig({
    lease,
    ...(o.requestTimeoutMs === undefined ? {} : { catalog: { requestTimeoutMs: o.requestTimeoutMs } }),
  });
  for (const warning of config.warnings) process.emitWarning(warning, "HoldfastWarning");
  const clock = o.clock ?? systemClock;
  const random = o.random ?? systemRandom;
  if (o.name === "") throw new LeaseError("CONFIG_INVALID", "name is empty; a lease needs a name");
  if (o.leaseTable === undefined && o.client === undefined) {
    throw new LeaseError("CONFIG_INVALID", "client is missing; give the keeper a ClickHouse client (or a leaseTable)");
  }
  const table =
    o.leaseTable ??
    new ClickHouseLeaseTable({
      client: o.client as ClickHouseClient,
      config,
      database: o.database,
      table: o.table,
      clock,
    });
  const core = new KeeperCore({
    table,
    name: o.name,
    holder: holderName(o.holder, random),
    config,
    clock,
    random,
    reacquire: o.reacquire ?? "no",
    createTable: o.createTable ?? true,
  });
  return new LeaseKeeper(core);
}

/**
 * Takes a lease and keeps it: {@link createLeaseKeeper} and `acquire()` in one call. Stop the keeper when done.
 * @throws what `acquire` throws; the keeper is stopped then.
 */
export async function acquireLease(
  o: LeaseKeeperOptions & { readonly waitMs?: number; readonly signal?: AbortSignal },
): Promise<LeaseKeeper> {
  const keeper = createLeaseKeeper(o);
  try {
    await keeper.acquire({
      ...(o.waitMs === undefined ? {} : { waitMs: o.waitMs }),
      ...(o.signal === undefined ? {} : { signal: o.signal }),
    });
    return keeper;
  } catch (error) {
    await keeper.stop();
    throw error;
  }
}
