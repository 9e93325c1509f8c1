import { instantAfter, type Clock, type Timer } from "./clock.js";
import { boundText, DeadlineExceededError, graver, RequestError, type Bound, type Outcome } from "./errors.js";
import { repeatsCredentials } from "./net-errors.js";
import { frames, type Frame } from "./registry.js";
import { chain, type ScopeNode } from "./scope-node.js";
import { Wait, type Binding } from "./wait.js";

/**
 * What an adapter says about an attempt that failed.
 * @internal
 */
export interface Failure {
  readonly text: string;
  readonly outcome: Outcome;
  /** The same request may be sent again inside the deadline. */
  readonly retry: boolean;
  /** A time limit ended it: the server's, or (with `bound`) the vendor client's own. */
  readonly timedOut?: boolean;
  readonly bound?: Bound;
  readonly serverCode?: number | undefined;
  readonly httpStatus?: number | undefined;
}

/**
 * One attempt, as the adapter sees it.
 * @internal
 */
export interface Attempt {
  readonly number: number;
  /** Aborted, with the error as its reason, when the attempt has to end. */
  readonly signal: AbortSignal;
  /**
   * Called as late as the adapter can, at best when a connected socket is there: reads the deadline afresh and answers the
   * whole ms left (Infinity: none). Throws when the request must not be sent any more.
   */
  start(): number;
  /** From here on a failure is no longer proved not-sent; `false` takes that back, for an adapter that learns better. */
  markSent(sent?: boolean): void;
  /** Ends the call with `DEADLINE_EXCEEDED`, not sent, because what it would start could not end in time. */
  withhold(why: string): void;
  /** Ends the call with this error. */
  fail(error: unknown): void;
  /** Keeps the bound on past the attempt, for a body that is still to be read. `end` must destroy it. */
  hold(end: (error: Error) => void): Held;
}

/** @internal */
export interface Held {
  /** The body ended well or was given up: timers and listeners go. */
  release(): void;
  /** The body broke: answers the error for its reader. */
  failed(error: unknown): Error;
}

/** @internal */
export interface CallSpec<T> {
  readonly clock: Clock;
  /** A bound of this call alone, from its beginning. */
  readonly limit: Bound | null;
  readonly signal: AbortSignal | null;
  readonly maxAttempts: number;
  attempt(attempt: Attempt): Promise<T>;
  classify(error: unknown, sent: boolean): Failure;
}

const firstPauseMs = 100;
const longestPauseMs = 1_000;

const insideHookOf = (node: ScopeNode, frame: Frame | undefined): boolean => {
  for (let at = frame; at !== undefined; at = at.up) if (at.hookOf === node) return true;
  return false;
};

/** Single-flight: parallel calls wait for the one that runs. It runs as the scope's own work, not as one caller's. */
function startHook(node: ScopeNode, hook: () => Promise<void>, frame: Frame | undefined): Promise<void> {
  const running = frames.run({ scope: node, hookOf: node, up: frame }, async () => hook());
  const cleared = running.finally(() => (node.hookRunning = null));
  cleared.catch(() => undefined);
  node.hookRunning = cleared;
  return cleared;
}

class Call<T> extends Wait {
  #controller: AbortController | null = null;
  #binding: Binding;
  #held = false;

  constructor(
    readonly spec: CallSpec<T>,
    readonly frame: Frame | undefined,
  ) {
    const { limit, clock } = spec;
    super(
      frame?.scope ?? null,
      clock,
      limit && { bound: limit, due: instantAfter(clock.now(), limit.ms) },
      spec.signal,
    );
    this.#binding = { leftMs: Infinity, due: clock.now(), clock, bound: { name: "no bound", ms: Infinity, knobs: {} } };
    this.onEnd = (error) => this.#controller?.abort(error);
  }

  async run(): Promise<T> {
    this.enter();
    try {
      await this.#hook();
      return await this.#attempts();
    } finally {
      if (!this.#held) this.leave();
    }
  }

  async #hook(): Promise<void> {
    for (const node of chain(this.scope)) {
      const { hook } = node.rule;
      if (!hook) continue;
      if (insideHookOf(node, this.frame)) return;
      const running = node.hookRunning ?? startHook(node, hook, this.frame);
      const binding = this.read();
      this.arm(binding, true);
      return this.bounded(running);
    }
  }

  async #attempts(): Promise<T> {
    let last: Failure | null = null;
    let cause: unknown;
    for (let number = 1; ; number++) {
      this.#binding = this.read(cause);
      if (this.#binding.leftMs < 1) {
        if (last) throw this.#error(last, cause, "not tried again: the deadline has come");
        this.expire(this.#binding.bound);
        throw this.ended ?? new Error("unreachable: an expired wait has ended");
      }
      try {
        return await this.#attempt(number);
      } catch (error) {
        if (this.ended) throw this.ended;
        const failure = this.#judge(error);
        if (!failure.retry) throw this.#error(failure, error);
        const pauseMs = Math.min(firstPauseMs * 2 ** (number - 1), longestPauseMs);
        const now = this.read(error);
        const { leftMs } = now;
        if (number >= this.spec.maxAttempts)
          throw this.#error(failure, error, `not tried again: attempt ${number} of ${this.spec.maxAttempts}`);
        if (leftMs <= pauseMs) {
          throw this.#error(
            failure,
            error,
            `not tried again: ${leftMs} ms left, the next pause is ${pauseMs} ms (${boundText(this.#binding.bound)})`,
          );
        }
        [last, cause] = [failure, error];
        this.sent = false;
        // The bound of the attempt that is over no longer counts: a deadline that was moved meanwhile does.
        this.arm(now, true);
        await this.#pause(pauseMs);
      }
    }
  }

  async #attempt(number: number): Promise<T> {
    const controller = new AbortController();
    this.#controller = controller;
    this.arm(this.#binding, false);
    return this.bounded(
      this.spec.attempt({
        number,
        signal: controller.signal,
        start: () => this.#start(),
        markSent: (sent = true) => {
          this.sent = sent;
        },
        withhold: (why) => this.expire(this.#binding.bound, why),
        fail: (error) => this.end(() => error as Error),
        hold: (end) => this.#hold(end),
      }),
    );
  }

  #start(): number {
    const before = this.#binding;
    const binding = this.read();
    // A wait for a socket is over: what was extended or lost meanwhile counts, and the timer follows.
    if (binding.due !== before.due || binding.bound.name !== before.bound.name) this.arm(binding, false);
    this.#binding = binding;
    if (binding.leftMs < 1) {
      this.expire(binding.bound);
      throw this.ended ?? new Error("unreachable: an expired wait has ended");
    }
    return binding.leftMs;
  }

  #hold(end: (error: Error) => void): Held {
    this.#held = true;
    this.onEnd = (error) => {
      this.leave();
      end(error);
      this.#controller?.abort(error);
    };
    return {
      release: () => this.leave(),
      failed: (error) => {
        this.leave();
        if (this.ended) return this.ended;
        return this.#error(this.#judge(error), error);
      },
    };
  }

  #judge(error: unknown): Failure {
    const failure = this.spec.classify(error, this.sent);
    this.outcome = graver(this.outcome, failure.outcome);
    this.sent = false;
    if (failure.timedOut) this.record(failure.bound ?? this.#binding.bound);
    return failure;
  }

  #error(failure: Failure, original: unknown, why?: string): Error {
    const { outcome } = this;
    // An error that repeats a password goes no further, not even as a cause.
    const cause = repeatsCredentials(original) ? undefined : original;
    if (failure.bound) return new DeadlineExceededError(failure.bound, { outcome, note: why, cause });
    const from = failure.timedOut ? `the bound of this request was ${boundText(this.#binding.bound)}` : why;
    return new RequestError(failure.text, {
      outcome,
      note: from,
      cause,
      timedOut: failure.timedOut ?? false,
      serverCode: failure.serverCode,
      httpStatus: failure.httpStatus,
    });
  }

  async #pause(ms: number): Promise<void> {
    let timer: Timer | undefined;
    try {
      await this.bounded(
        new Promise<void>((resolve) => {
          timer = this.clock.setTimer(ms, resolve);
        }),
      );
    } finally {
      timer?.cancel();
    }
  }
}

/**
 * Runs one request under the scopes in force: hook, deadline, attempts, outcome. Every adapter goes through here.
 * @internal
 */
export function runCall<T>(spec: CallSpec<T>): Promise<T> {
  return new Call(spec, frames.getStore()).run();
}
