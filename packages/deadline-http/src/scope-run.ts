import type { Instant } from "./clock.js";
import { DeadlineTimer, lateNote } from "./deadline-timer.js";
import { CanceledError, DeadlineExceededError, type Bound, type Outcome } from "./errors.js";
import { frames } from "./registry.js";
import { cancelScope, closeScope, expireScope, timerStepMs, type ScopeNode, type Waiting } from "./scope-node.js";

/**
 * One run of a function in a scope, from entering to leaving. With `due` the promise settles by it, or when the scope's
 * signal is aborted, or when the scope around it is left, whatever the function does; without, when the function does.
 * Either way the scope is closed first.
 * @internal
 */
export class ScopeRun<T> implements Waiting {
  #timer: DeadlineTimer | null = null;
  #promise: Promise<T> | null = null;
  #reject: (error: unknown) => void = () => undefined;

  constructor(
    readonly node: ScopeNode,
    readonly due: Instant | null,
  ) {}

  run<V>(fn: (view: V) => Promise<T>, view: V): Promise<T> {
    const { node, due } = this;
    const { signal, clock } = node.rule;
    signal?.addEventListener("abort", this.#onAbort, { once: true });
    if (due !== null && due !== Infinity) this.#timer = new DeadlineTimer(clock, due, timerStepMs(node), this.#onDue);
    if (due !== null) node.run = this;
    const frame = { scope: node, hookOf: null, up: frames.getStore() };
    const work = frames.run(frame, started, fn, view);
    return (this.#promise = new Promise<T>((resolve, reject) => {
      this.#reject = (error) => {
        closeScope(node);
        // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- the function's own, as it came
        reject(error);
      };
      work.then(
        (value) => {
          this.#stop();
          closeScope(node);
          resolve(value);
        },
        (error: unknown) => {
          this.#stop();
          this.#reject(error);
        },
      );
    }));
  }

  /** It has sent nothing itself, and is not what the loss of a lease cancels: its requests are. */
  unsent(): boolean {
    return false;
  }

  end(error: (outcome: Outcome) => Error): void {
    this.#endFromOutside(error("unknown"));
  }

  expire(bound: Bound, note?: string): void {
    this.#endFromOutside(new DeadlineExceededError(bound, { outcome: "unknown", note }));
  }

  /** The scope around it was left, and perhaps this run forgotten: who does not await it is not told of an error. */
  #endFromOutside(error: Error): void {
    this.#promise?.catch(() => undefined);
    this.#unlessSettled(error);
  }

  #stop(): void {
    this.#timer?.cancel();
    this.node.run = null;
    this.node.rule.signal?.removeEventListener("abort", this.#onAbort);
  }

  readonly #onDue = (loopDelayMs: number): void => {
    const { name, ms, knobs } = this.node.rule;
    const bound = { name, ms: ms ?? 0, knobs };
    const note = lateNote(loopDelayMs);
    expireScope(this.node, bound, note);
    this.#unlessSettled(new DeadlineExceededError(bound, { outcome: "unknown", note }));
  };

  readonly #onAbort = (): void => {
    cancelScope(this.node);
    if (this.due === null) return;
    this.#unlessSettled(new CanceledError({ outcome: "unknown", cause: this.node.rule.signal?.reason }));
  };

  /**
   * The requests of the scope end at this moment too, and their errors say more (the outcome): they go first. Two turns let
   * one cross a poll phase and the await chain in the function.
   */
  #unlessSettled(error: Error): void {
    this.#stop();
    setImmediate(() => setImmediate(() => this.#reject(error)));
  }
}

/** A function that throws at once fails like one whose promise does. */
function started<T, V>(fn: (view: V) => Promise<T>, view: V): Promise<T> {
  try {
    return Promise.resolve(fn(view));
  } catch (error) {
    return failed(error);
  }
}

/**
 * What an async function would answer that throws this: passed on as it came, whatever it is.
 * @internal
 */
export function failed(error: unknown): Promise<never> {
  // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- see above
  return Promise.reject(error);
}
