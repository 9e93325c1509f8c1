import { instantAfter, type Clock, type Instant } from "./clock.js";
import { DeadlineTimer, lateNote } from "./deadline-timer.js";
import {
  CanceledError,
  DeadlineExceededError,
  LeaseLostError,
  ScopeClosedError,
  type Bound,
  type Outcome,
} from "./errors.js";
import { deadlineOf, loseLease, timerStepMs, type ScopeNode, type Waiting } from "./scope-node.js";

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

const noBound: Bound = { name: "no bound", ms: Infinity, knobs: {} };

/**
 * What binds where nothing does.
 * @internal
 */
export const unbounded = (clock: Clock): Binding => ({
  leftMs: Infinity,
  due: Infinity as Instant,
  clock,
  bound: noBound,
});

function bindingOf(clock: Clock, due: Instant, bound: Bound | null, by: ScopeNode | null): Binding {
  const now = clock.now();
  const leftMs = Math.floor(due - now);
  return { leftMs, due: instantAfter(now, leftMs), clock, bound: bound ?? boundOf(by, leftMs) };
}

/** How a scope's bound is told: one whose deadline moves by what was left of it. */
function boundOf(node: ScopeNode | null, leftMs: number): Bound {
  if (node === null) return noBound;
  const { name, ms, knobs } = node.rule;
  return { name, ms: ms ?? Math.max(0, leftMs), knobs };
}

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
  /** It waits no more, however it ended. */
  settled = false;
  #reject: ((error: Error) => void) | null = null;
  #timer: DeadlineTimer | null = null;

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
    this.settled = true;
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

  /** Told when the wait was ended: a request cancels what its adapter started, a wait for the work of others started nothing. */
  protected onEnd?(error: Error): void;

  outcomeNow(): Outcome {
    return this.sent ? "unknown" : this.outcome;
  }

  /** Throws when nothing may be begun here any more. */
  check(): void {
    if (this.ended) throw this.ended;
    const outcome = this.outcomeNow();
    for (let node = this.scope; node !== null; node = node.parent) {
      if (node.closed) throw new ScopeClosedError(node.rule.name, { outcome });
      if (node.rule.signal?.aborted) throw new CanceledError({ outcome, cause: node.rule.signal.reason });
    }
    if (this.signal?.aborted) throw new CanceledError({ outcome, cause: this.signal.reason });
  }

  /** Reads every deadline in force afresh and answers the tightest. `gone` throws, and takes unsent siblings with it. */
  read(cause?: unknown): Binding {
    this.check();
    const { limit } = this;
    let best = limit ? bindingOf(this.clock, limit.due, limit.bound, null) : unbounded(this.clock);
    for (let node = this.scope; node !== null; node = node.parent) {
      const due = deadlineOf(node);
      if (due === "gone") {
        const error = new LeaseLostError(node.rule.name, { outcome: this.outcomeNow(), cause });
        loseLease(node);
        throw error;
      }
      const next = bindingOf(node.rule.clock, due, null, node);
      if (next.leftMs < best.leftMs) best = next;
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
    this.#timer = new DeadlineTimer(binding.clock, binding.due, timerStepMs(this.scope), (loopDelayMs) => {
      if (reread && this.#extended()) return;
      this.expire(binding.bound, lateNote(loopDelayMs));
    });
  }

  /** For who has seen that the bound has come: the timer still sleeps when the machine did. */
  hurry(): void {
    this.#timer?.hurry();
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
    for (let node = this.scope; node !== null; node = node.parent) node.timedOut = bound;
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
