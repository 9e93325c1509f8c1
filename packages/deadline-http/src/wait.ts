import type { Clock, Instant, Timer } from "./clock.js";
import { deadlineTimer, lateNote } from "./deadline-timer.js";
import {
  CanceledError,
  DeadlineExceededError,
  LeaseLostError,
  ScopeClosedError,
  type Bound,
  type Outcome,
} from "./errors.js";
import { chain, loseLease, type ScopeNode, type Waiting } from "./scope-node.js";

/** While a lease binds, the clock is looked at this often: after a suspend a longer timer would be late by its length. */
const leaseStepMs = 200;

/**
 * The tightest deadline in force, as read at one moment. `leftMs` is whole milliseconds, rounded down; Infinity: none.
 * @internal
 */
export interface Binding {
  readonly leftMs: number;
  readonly due: Instant;
  readonly clock: Clock;
  readonly bound: Bound;
}

const unbounded = (clock: Clock): Binding => ({
  leftMs: Infinity,
  due: Infinity as Instant,
  clock,
  bound: { name: "no bound", ms: Infinity, knobs: {} },
});

/**
 * One thing that waits under the scopes in force and ends when the first of them says so. Base of a request, and used
 * by itself for a caller that joins detached work.
 * @internal
 */
export class Wait implements Waiting {
  /** The gravest outcome of the attempts that are over. */
  outcome: Outcome = "not-sent";
  /** Bytes of the attempt that runs may have reached a connected socket. */
  sent = false;
  /** Set once the wait was ended from outside; everything after it fails with this. */
  ended: Error | null = null;
  /** Told when the wait is ended: cancels what the adapter started. */
  onEnd: ((error: Error) => void) | null = null;
  #reject: ((error: Error) => void) | null = null;
  #timer: Timer | null = null;

  constructor(
    readonly scope: ScopeNode | null,
    readonly clock: Clock,
    readonly limit: { readonly bound: Bound; readonly due: Instant } | null,
    readonly signal: AbortSignal | null,
  ) {}

  readonly #onAbort = (): void => {
    this.end((outcome) => new CanceledError({ outcome, cause: this.signal?.reason }));
  };

  /** Refuses in a closed scope or under an aborted signal, then registers with the scope and the signal. */
  enter(): void {
    this.check();
    if (this.scope) (this.scope.waiting ??= new Set()).add(this);
    this.signal?.addEventListener("abort", this.#onAbort, { once: true });
  }

  /** Leaves no timer and no listener behind. */
  leave(): void {
    this.#timer?.cancel();
    this.#timer = null;
    this.scope?.waiting?.delete(this);
    this.signal?.removeEventListener("abort", this.#onAbort);
  }

  unsent(): boolean {
    return !this.sent;
  }

  end(error: (outcome: Outcome) => Error): void {
    if (this.ended) return;
    this.ended = error(this.outcomeNow());
    this.onEnd?.(this.ended);
    this.#reject?.(this.ended);
  }

  outcomeNow(): Outcome {
    return this.sent ? "unknown" : this.outcome;
  }

  /** Throws when nothing may be begun here any more. */
  check(): void {
    if (this.ended) throw this.ended;
    const outcome = this.outcomeNow();
    for (const node of chain(this.scope)) {
      if (node.closed) throw new ScopeClosedError(node.rule.name, { outcome });
      if (node.rule.signal?.aborted) throw new CanceledError({ outcome, cause: node.rule.signal.reason });
    }
    if (this.signal?.aborted) throw new CanceledError({ outcome, cause: this.signal.reason });
  }

  /** Reads every deadline in force afresh and answers the tightest. `gone` throws, and takes unsent siblings with it. */
  read(cause?: unknown): Binding {
    this.check();
    let best = unbounded(this.clock);
    const consider = (clock: Clock, due: Instant, bound: (leftMs: number) => Bound): void => {
      const now = clock.now();
      const leftMs = Math.floor(due - now);
      if (leftMs < best.leftMs) best = { leftMs, due: (now + leftMs) as Instant, clock, bound: bound(leftMs) };
    };
    const { limit } = this;
    if (limit) consider(this.clock, limit.due, () => limit.bound);
    for (const node of chain(this.scope)) {
      const due = node.rule.deadline();
      if (due === "gone") {
        const error = new LeaseLostError(node.rule.name, { outcome: this.outcomeNow(), cause });
        loseLease(node);
        throw error;
      }
      consider(node.rule.clock, due, (leftMs) => ({
        name: node.rule.name,
        ms: node.rule.ms ?? Math.max(0, leftMs),
        knobs: node.rule.knobs,
      }));
    }
    return best;
  }

  /**
   * Sets the timer to a binding. With `reread` the deadline is asked again when the timer fires, and an extension made
   * meanwhile counts: for waits before a request; an attempt keeps the bound it was given.
   */
  arm(binding: Binding, reread: boolean): void {
    this.#timer?.cancel();
    this.#timer = null;
    if (binding.leftMs === Infinity) return;
    let stepMs = Infinity;
    for (const node of chain(this.scope)) if (node.rule.lease) stepMs = leaseStepMs;
    this.#timer = deadlineTimer(binding.clock, binding.due, stepMs, (loopDelayMs) => {
      if (reread && this.#extended()) return;
      this.expire(binding.bound, lateNote(loopDelayMs));
    });
  }

  #extended(): boolean {
    try {
      const again = this.read();
      if (again.leftMs < 1) return false;
      this.arm(again, true);
    } catch (error) {
      this.end(() => error as Error);
    }
    return true;
  }

  expire(bound: Bound, note?: string): void {
    if (this.ended) return;
    this.record(bound);
    this.end((outcome) => new DeadlineExceededError(bound, { outcome, note }));
  }

  /** Every scope around a request remembers that it ended by its bound. */
  record(bound: Bound): void {
    for (const node of chain(this.scope)) node.timedOut = bound;
  }

  /** The promise's result, or the error this wait is ended with, whichever comes first. */
  bounded<T>(work: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.ended) {
        work.catch(() => undefined);
        reject(this.ended);
        return;
      }
      this.#reject = reject;
      work.then(resolve, reject);
    });
  }
}
