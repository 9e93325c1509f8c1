import { acquireWithin } from "./acquire.js";
import { duration, type LeaseConfig } from "./config.js";
import { factsOf } from "./errors.js";
import { Jobs } from "./jobs.js";
import type { KeeperCore, LeaseChange } from "./keeper-core.js";
import type { LeaseLoss } from "./keeper-state.js";
import { KeeperLoop } from "./keeper-loop.js";
import type { Held, LeaseStatus } from "./keeper-options.js";
import { refuseInStretch, runStretch, type Stretch } from "./stretch.js";

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
  readonly #loop: KeeperLoop;
  readonly #jobs = new Jobs();
  #stopping: Promise<void> | null = null;

  private constructor(core: KeeperCore) {
    this.#core = core;
    this.#loop = new KeeperLoop(core);
    this.reacquire = core.o.reacquire;
    this.name = core.o.name;
    this.holder = core.o.holder;
    this.config = core.o.config;
  }

  /** @internal */
  static over(core: KeeperCore): LeaseKeeper {
    return new LeaseKeeper(core);
  }

  /** Creates the lease table if it is absent. The first claim does so too (option `createTable`). */
  async createTable(): Promise<void> {
    await this.#core.ready.createTable();
  }

  /**
   * Takes the lease, waiting up to `waitMs` (default lease.startWaitMs; 0 is one attempt) for another holder to release it or expire,
   * and starts renewing. Asks nothing when it is held already (a stretch that runs is waited for); a lease that is being given back is
   * waited for and claimed afresh.
   * @throws LeaseError LEASE_HELD naming the holder and the wait; CLAIM_NOT_RECORDED; LEASE_QUARANTINED when a claim of ours timed out and
   * may still land; LEASE_LATCHED; LEASE_LOST when the keeper is stopped; the table's own error for anything but a timeout.
   */
  async acquire(o: { waitMs?: number; signal?: AbortSignal } = {}): Promise<void> {
    refuseInStretch("acquire()");
    this.#core.refuseStopped();
    this.#loop.start();
    await acquireWithin(this.#core, duration("waitMs", o.waitMs, this.config.startWaitMs, 0), o.signal);
  }

  /**
   * One claim, if one is allowed now: not in quarantine and not before the pause after a refusal is over. True when the lease is held
   * afterwards. Refusals and failures are in `status()`, not thrown.
   */
  async tryAcquire(): Promise<boolean> {
    refuseInStretch("tryAcquire()");
    this.#core.refuseStopped();
    this.#loop.start();
    return this.#core.locked(async () => {
      const { phase } = this.#core.feed();
      // One that is being given back is of no use to anybody.
      if (phase.s === "held") return phase.lease.leaseId !== this.#core.leaving;
      // Stopped while it waited for its turn: nobody would renew or release what it claims.
      if (this.#core.stopping.signal.aborted) return false;
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
    return this.#jobs.run(() => fn(this.#heldView(leaseId)));
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
        core.quarantine(leaseId, cause);
      },
    };
  }

  /**
   * Runs a short stretch of catalog requests under the lease lock: each request is bounded by the lease deadline and preceded by a
   * renewal when one is due. Await nothing but such requests in it, since the lock keeps the keeper's own renewals out. Inside a stretch
   * of the same keeper it joins that stretch. `name` is how warnings call it (option `onWarning`); default: the function's.
   * @throws LeaseError LEASE_LOST, LEASE_QUARANTINED or LEASE_LATCHED when the lease is not held; NESTED_LEASE inside another keeper's stretch.
   */
  exclusive<T>(fn: (stretch: Stretch) => Promise<T>, o: { readonly name?: string } = {}): Promise<T> {
    return runStretch(this.#core, fn, o.name ?? (fn.name || "exclusive()"));
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
    for (let given = false; !given;) {
      // Also when it is being given back already: who calls second waits for the jobs as well.
      const { phase } = core.feed({ e: "stand-down" });
      if (phase.s === "held") {
        core.leaving = phase.lease.leaseId;
        core.signalLoss(phase.lease.leaseId, "released", "the lease is being given back");
        await this.#jobs.ended(core.o.clock, this.config.ttlMs);
      }
      given = await core.locked(() => this.#giveBack());
    }
  }

  /** False when a claim that was under way took a lease whose jobs have not been told. */
  async #giveBack(): Promise<boolean> {
    const core = this.#core;
    const { phase } = core.feed({ e: "stand-down" });
    if (phase.s !== "held") return true;
    const { lease } = phase;
    if (lease.leaseId !== core.leaving) return false;
    if (this.#jobs.othersRun()) {
      const message = `jobs under the lease did not end within lease.ttlMs (${this.config.ttlMs}) of being told; the lease is left to expire`;
      core.feed({ e: "quarantine", leaseId: lease.leaseId, timedOut: false, message });
      return true;
    }
    // Before the tombstone leaves: from when it has landed a successor may hold, and by then nothing here may be told "held".
    core.feed({ e: "released", leaseId: lease.leaseId });
    try {
      await core.coordinator.release(lease);
    } catch (error) {
      core.feed({ e: "release-failed", message: `the release could not be written: ${factsOf(error).message}` });
    }
    return true;
  }

  /** Ends the keeper: gives the lease back as `release` does, then the loop ends. Idempotent. */
  async stop(): Promise<void> {
    refuseInStretch("stop()");
    this.#stopping ??= this.#stop();
    await this.#stopping;
  }

  async #stop(): Promise<void> {
    this.#core.stopping.abort();
    await this.release();
    await this.#loop.stop();
    if (this.#core.o.ownTable) await this.#core.o.table.close?.();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  /** What the keeper knows now. Never says "held" past the lease deadline. */
  status(): LeaseStatus {
    const core = this.#core;
    const state = core.feed();
    const { phase } = state;
    const leaseTimeoutError = core.timeoutError();
    const lastError =
      leaseTimeoutError === null ? state.lastError : `${leaseTimeoutError}; last: ${state.lastError ?? "none"}`;
    const status: { -readonly [K in keyof LeaseStatus]: LeaseStatus[K] } = {
      state: phase.s,
      holder: this.holder,
      renewals: state.renewals,
      reacquisitions: state.reacquisitions,
      leaseTimeouts: state.timeouts,
      leaseTimeoutError,
      lastError,
    };
    if (phase.s === "held") {
      status.leaseId = phase.lease.leaseId;
      status.term = phase.lease.term.toString();
    }
    if (phase.s === "quarantined") status.quarantinedUntilMs = phase.until;
    if (state.rival !== null) status.heldBy = state.rival;
    if (state.lastLoss !== null) status.lastLoss = state.lastLoss;
    return status;
  }

  /** Calls `listener` for each change of state, synchronously. Returns what ends that. */
  onChange(listener: (change: LeaseChange) => void): () => void {
    return this.#core.onChange(listener);
  }

  /** Calls `listener` once for each lease that ends, released ones included, synchronously. Returns what ends that. */
  onLost(listener: (loss: LeaseLoss) => void): () => void {
    return this.#core.onLost(listener);
  }
}
