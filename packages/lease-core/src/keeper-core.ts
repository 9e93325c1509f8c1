import { detached, type Clock } from "@holdfast/deadline-http";
import { outside } from "./async-context.js";
import { AsyncLock } from "./async-lock.js";
import { leaseKnobs, type LeaseConfig } from "./config.js";
import { LeaseCoordinator, type ClaimResult, type HeldLease } from "./coordinator.js";
import { factsOf, LeaseError, type LossReason } from "./errors.js";
import {
  initialState,
  type KeeperEffect,
  type KeeperEvent,
  type KeeperRules,
  type KeeperState,
  type LeaseLoss,
} from "./keeper-state.js";
import { holds, step } from "./keeper-step.js";
import type { Fence, LeaseTable } from "./lease-table.js";
import type { Random } from "./prng.js";
import { TableReady } from "./table-ready.js";

/** From this many timeouts on, the settings concerned are named. */
const timeoutsToName = 3;

const timePassed: KeeperEvent = { e: "now" };

export type LeaseChange = { readonly from: string; readonly to: string; readonly why: string };

export interface KeeperCoreOptions {
  readonly table: LeaseTable;
  readonly name: string;
  readonly holder: string;
  readonly config: LeaseConfig;
  readonly clock: Clock;
  readonly random: Random;
  readonly reacquire: KeeperRules["reacquire"];
  readonly createTable: boolean;
  readonly onWarning: ((message: string) => void) | null;
  /** The table was made for this keeper, which ends it as well. */
  readonly ownTable: boolean;
}

/** The shell around `step`: owns the state, feeds it, performs its effects, and makes the claims. */
export class KeeperCore {
  readonly o: KeeperCoreOptions;
  readonly coordinator: LeaseCoordinator;
  readonly lock = new AsyncLock();
  readonly ready: TableReady;
  /** Lease id that is being given back: its jobs are told, it is used no more, and it is renewed until they have ended. */
  leaving: string | null = null;
  /** Aborted when the keeper is stopped: nothing is claimed from then on. */
  readonly stopping = new AbortController();
  readonly #rules: KeeperRules;
  #state: KeeperState;
  #signals: { readonly leaseId: string; readonly controller: AbortController } | null = null;
  readonly #listeners = new Set<(change: LeaseChange) => void>();
  readonly #lossListeners = new Set<(loss: LeaseLoss) => void>();
  #sleptSeen: number;
  #renewing: Promise<ClaimResult> | null = null;
  /** Called when the state has moved: the loop looks again at what is due. */
  onMove: () => void = () => undefined;

  constructor(options: KeeperCoreOptions) {
    this.o = options;
    const { ttlMs, tickMs, renewAfterMs, latchAfterMs, streakClearsAfterMs } = options.config;
    this.#rules = { ttlMs, tickMs, renewAfterMs, latchAfterMs, streakClearsAfterMs, reacquire: options.reacquire };
    this.coordinator = new LeaseCoordinator(options);
    this.#state = { ...initialState, partings: options.clock.partings() };
    this.#sleptSeen = options.clock.sleptMs?.() ?? 0;
    this.ready = new TableReady(options);
  }

  /** Lets time act on the state, then the event, and performs what follows. Every public entry comes through here first. */
  feed(event: KeeperEvent = timePassed): KeeperState {
    const { clock } = this.o;
    const now = clock.recheck();
    const slept = clock.sleptMs?.() ?? 0;
    if (slept !== this.#sleptSeen) {
      const ms = slept - this.#sleptSeen;
      this.#sleptSeen = slept;
      this.#take({ e: "slept", ms }, now);
    }
    const partings = clock.partings();
    if (partings !== this.#state.partings) {
      this.#take({ e: "parted", partings }, now);
      this.onMove(); // A renewal is due now.
    }
    this.#take(event, now);
    return this.#state;
  }

  #take(event: KeeperEvent, now: ReturnType<Clock["now"]>): void {
    const { next, effects } = step(this.#state, event, now, this.#rules);
    this.#state = next;
    // Listeners do not run in the stretch or job that happened to notice: what they ask of the keeper would be refused as made inside it.
    if (effects.length > 0) outside(() => effects.forEach((effect) => this.#perform(effect)));
    if (effects.length > 0) this.onMove();
    // Lost before it was given back: nobody wants another.
    const left = effects.some((effect) => effect.do === "signal-loss" && effect.loss.leaseId === this.leaving);
    if (left) this.#take({ e: "stand-down" }, now);
  }

  #perform(effect: KeeperEffect): void {
    if (effect.do === "tell") {
      this.#tell("onChange", this.#listeners, { from: effect.from, to: effect.to, why: effect.why });
      return;
    }
    const { loss } = effect;
    this.signalLoss(loss.leaseId, loss.reason, loss.message);
    this.#tell("onLost", this.#lossListeners, loss);
  }

  #tell<T>(what: string, listeners: ReadonlySet<(news: T) => void>, news: T): void {
    for (const listener of listeners) {
      try {
        listener(news);
      } catch (error) {
        // A listener's fault must not stop the keeper half-way through a change; status() shows it.
        this.#state = { ...this.#state, lastError: `a listener of ${what} threw: ${factsOf(error).message}` };
      }
    }
  }

  onLost(listener: (loss: LeaseLoss) => void): () => void {
    this.#lossListeners.add(listener);
    return () => this.#lossListeners.delete(listener);
  }

  onChange(listener: (change: LeaseChange) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** The signal of this lease: aborted when it is lost or given back. */
  lossSignal(leaseId: string): AbortSignal {
    if (this.#signals?.leaseId !== leaseId) this.#signals = { leaseId, controller: new AbortController() };
    return this.#signals.controller.signal;
  }

  signalLoss(leaseId: string, reason: LossReason, message: string): void {
    if (this.#signals?.leaseId !== leaseId) return;
    this.#signals.controller.abort(new LeaseError("LEASE_LOST", `lease "${this.o.name}": ${message}`, { reason }));
  }

  /** The lease that is held now, also for use: not one that is being given back. */
  usable(): HeldLease | null {
    const { phase } = this.feed();
    return phase.s === "held" && phase.lease.leaseId !== this.leaving ? phase.lease : null;
  }

  /** The lease held now, or the error that says why there is none. */
  require(): HeldLease {
    const lease = this.usable();
    if (lease === null) throw this.notHeld();
    return lease;
  }

  /** Refuses what a stopped keeper must not do: nobody would renew or release what it claims. */
  refuseStopped(): void {
    if (!this.stopping.signal.aborted) return;
    throw new LeaseError("LEASE_LOST", `the keeper of lease "${this.o.name}" was stopped; make a new one`);
  }

  notHeld(): LeaseError {
    const { phase, lastError, rival, lastLoss } = this.#state;
    const last = lastError === null ? "" : `; last error: ${lastError}`;
    const details = {
      ...(rival === null ? {} : { heldBy: rival }),
      ...(lastLoss === null ? {} : { reason: lastLoss.reason }),
    };
    const lease = `lease "${this.o.name}"`;
    if (phase.s === "quarantined") {
      const ms = Math.max(0, Math.ceil(phase.until - this.o.clock.now()));
      return new LeaseError(
        "LEASE_QUARANTINED",
        `${lease} is quarantined for another ${ms} ms, as a statement of ours may still take effect${last}`,
        details,
      );
    }
    if (phase.s === "failed") return new LeaseError("LEASE_LATCHED", `${lease}: ${phase.why}`, { heldBy: phase.rival });
    if (phase.s === "held") return new LeaseError("LEASE_LOST", `${lease} is being given back`, { reason: "released" });
    return new LeaseError("LEASE_LOST", `${lease} is not held (state ${phase.s})${last}`, details);
  }

  /** A statement under the lease may or may not have taken effect. */
  quarantine(leaseId: string, cause: unknown): void {
    const { timedOut, message } = factsOf(cause);
    const text = `a statement under the lease ended with unknown outcome: ${message}`;
    this.feed({ e: "quarantine", leaseId, timedOut, message: text });
  }

  unconfirmed(lease: HeldLease): boolean {
    return this.o.clock.partings() !== lease.partings;
  }

  fence(lease: HeldLease): Fence {
    return this.o.table.fence({ name: this.o.name, leaseId: lease.leaseId, term: lease.term });
  }

  get state(): KeeperState {
    return this.#state;
  }

  /** From the third timeout that cost the lease on: the settings that decide, with their values. */
  timeoutError(): string | null {
    const { timeouts } = this.#state;
    if (timeouts < timeoutsToName) return null;
    const { config } = this.o;
    const knobs = Object.entries(leaseKnobs(config)).map(([path, ms]) => `${path} ${ms}`);
    return (
      `${timeouts} timeouts in a row cost the lease: the catalog is too slow for these settings: ${knobs.join(", ")}, ` +
      `lease.ttlMs / 3 ${config.claimBoundMs} for each request of a first claim, lease deadline ${config.holdMs} after a claim is sent; raise lease.ttlMs`
    );
  }

  /**
   * Runs `work` under the lease lock, in the root context: no scope and no signal of the caller reaches it. The caller waits no longer
   * than its own deadline; the work, and the lock, go on.
   */
  locked<T>(work: () => Promise<T>): Promise<T> {
    return detached(async () => {
      const ticket = this.lock.request();
      await ticket.ready;
      try {
        return await work();
      } finally {
        ticket.release();
      }
    });
  }

  /** One claim (or renewal of what is held), and its result fed to the state. Call it under the lock. `seeking`: go on if refused. */
  async claim(seeking: boolean): Promise<ClaimResult> {
    const { phase } = this.feed();
    // The deadline may have passed since the caller looked: what was to be a renewal must not become a first claim in its quarantine.
    if (phase.s === "quarantined" || phase.s === "failed") {
      return { result: "failed", error: this.notHeld(), timedOut: false, insert: "not-sent" };
    }
    const held = phase.s === "held" ? phase.lease : null;
    if (held !== null) this.feed({ e: "renewing", leaseId: held.leaseId });
    const { clock } = this.o;
    // Without feed(): the coordinator has looked at the clock anew for the INSERT, and whoever drops a lease moves the state.
    const wanted = () => {
      const state = this.#state;
      return held !== null && holds(state, held.leaseId) && clock.now() < state.phase.lease.deadline;
    };
    const result =
      (await this.ready.unready()) ?? (await this.coordinator.claim(held, held === null ? {} : { wanted }));
    const before = this.#state.timeoutsEver;
    this.#digest(result, held, seeking);
    // Seen too late to hold by it, by the few turns between the coordinator's look at the clock and ours.
    const late = result.result === "held" && !holds(this.#state, result.lease.leaseId);
    this.feed({ e: "stretch-ended", leaseIdBefore: held?.leaseId ?? null, timeoutsEverBefore: before, timedOut: null });
    return late ? { result: "failed", error: this.notHeld(), timedOut: true, insert: "unknown" } : result;
  }

  #digest(result: ClaimResult, held: HeldLease | null, seeking: boolean): void {
    const renewalOf = held?.leaseId ?? null;
    switch (result.result) {
      case "held":
        this.feed({ e: "claimed", lease: result.lease });
        return;
      case "refused": {
        const { error, ownClaims } = result;
        const { tickMs } = this.o.config;
        // What the table dropped without a trace is no rival's doing, and its head read had found nobody.
        const foreign = !ownClaims && error.code !== "CLAIM_NOT_RECORDED";
        const takenOver = error.code === "LEASE_LOST" || (error.code === "LEASE_HELD" && !error.contested);
        const rival = error.heldBy ?? null;
        const waitMs = tickMs + this.o.random() * tickMs;
        this.feed({ e: "refused", renewalOf, seeking, takenOver, foreign, rival, message: error.message, waitMs });
        return;
      }
      case "failed": {
        const { insert, timedOut, error } = result;
        this.feed({ e: "failed", renewalOf, seeking, insert, timedOut, message: factsOf(error).message });
      }
    }
  }

  /** The hook of a stretch: renews `leaseId` when it is due, and lets the request go only if it is still ours. Single-flight. */
  async renewWhenDue(leaseId: string): Promise<void> {
    const state = this.feed();
    if (!holds(state, leaseId)) return; // The stretch's deadline says "gone", which is the better error.
    const { lease, renewAt } = state.phase;
    if (this.o.clock.now() < renewAt && !this.unconfirmed(lease)) return;
    const result = await detached(() => this.renew());
    if (result.result === "held") return;
    if (result.result === "refused") throw result.error;
    const after = this.feed();
    // The renewal provably wrote nothing: the lease stays ours until its deadline.
    if (holds(after, leaseId) && !this.unconfirmed(after.phase.lease)) return;
    throw after.phase.s === "quarantined" ? this.notHeld() : result.error;
  }

  /** One renewal at a time; those who come meanwhile share it. Call it under the lock. */
  renew(): Promise<ClaimResult> {
    this.#renewing ??= this.claim(true).finally(() => (this.#renewing = null));
    return this.#renewing;
  }

  /** Calls back when no renewal is under way: at once, or when it has ended. */
  afterRenewal(callback: () => void): void {
    if (this.#renewing === null) callback();
    else void this.#renewing.finally(callback);
  }
}
