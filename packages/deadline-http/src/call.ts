import { instantAfter, type Clock, type Timer } from "./clock.js";
import { boundText, DeadlineExceededError, graver, RequestError, type Bound, type Outcome } from "./errors.js";
import { repeatsCredentials } from "./net-errors.js";
import { frames, type Frame } from "./registry.js";
import type { ScopeNode } from "./scope-node.js";
import { unbounded, Wait, type Binding } from "./wait.js";

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
 * Whether a request may write on. `wait`: its bound has run out, and its call is judged within a few turns of the event loop, since an
 * answer that lies in the socket still counts; ask again in the next. `cut`: nobody waits for what is left of it, so nobody else would
 * end its connection.
 * @internal
 */
export type Permit = "go-on" | "wait" | "cut";

/**
 * One attempt, as the adapter sees it.
 * @internal
 */
export interface Attempt {
  readonly number: number;
  /** Aborted, with the error as its reason, when the attempt has to end. Made when first asked for: a signal has its price. */
  readonly signal: AbortSignal;
  /** The error that the call was ended with from outside, or null: what the signal tells, without one. */
  readonly ended: Error | null;
  /** Told when the attempt has to end, for an adapter that needs no signal; one listener. */
  onEnd(end: (error: Error) => void): void;
  /**
   * Called as late as the adapter can, at best when a connected socket is there: reads the deadline afresh and answers the
   * whole ms left (Infinity: none). Throws when the request must not be sent any more.
   */
  start(): number;
  /** From here on a failure is no longer proved not-sent; `false` takes that back, for an adapter that learns better. */
  markSent(sent?: boolean): void;
  /** Whether the next piece of the request may still be written, by the bound that the attempt was given; if so, the attempt counts as sent. */
  permit(): Permit;
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
  /** The attempt that runs, or whose body is held. */
  #running: Running | null = null;
  #binding: Binding;
  /** Ends the body that is still to be read, once the attempt has answered. */
  #endHeld: ((error: Error) => void) | null = null;

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
    this.#binding = unbounded(clock);
  }

  protected override onEnd(error: Error): void {
    if (this.#endHeld) this.leave();
    this.#endHeld?.(error);
    this.#running?.end(error);
  }

  async run(): Promise<T> {
    this.enter();
    try {
      const hook = this.#hook();
      if (hook) await hook;
      return await this.#attempts();
    } finally {
      if (!this.#endHeld) this.leave();
    }
  }

  #hook(): Promise<void> | null {
    for (let node = this.scope; node !== null; node = node.parent) {
      const { hook } = node.rule;
      if (!hook) continue;
      if (insideHookOf(node, this.frame)) return null;
      const running = node.hookRunning ?? startHook(node, hook, this.frame);
      this.arm(this.read(), true);
      return this.bounded(running);
    }
    return null;
  }

  async #attempts(): Promise<T> {
    let last: Failure | null = null;
    let cause: unknown;
    for (let number = 1; ; number++) {
      this.#binding = this.read(cause);
      if (this.#binding.leftMs < 1) {
        if (last) throw this.#error(last, cause, "not tried again: the deadline has come");
        throw this.#expired();
      }
      this.#running = new Running(this, number);
      this.arm(this.#binding, false);
      try {
        return await this.bounded(this.spec.attempt(this.#running));
      } catch (error) {
        this.#running.over = true;
        if (this.ended) throw this.ended;
        const failure = this.#judge(error);
        const pauseMs = Math.min(firstPauseMs * 2 ** (number - 1), longestPauseMs);
        const now = this.#unlessOver(failure, error, number, pauseMs);
        [last, cause] = [failure, error];
        // The bound of the attempt that is over no longer counts: a deadline that was moved meanwhile does.
        this.arm(now, true);
        await this.#pause(pauseMs);
      }
    }
  }

  /** Throws the failure, with the reason, when there is to be no further attempt; answers the deadline in force. */
  #unlessOver(failure: Failure, error: unknown, number: number, pauseMs: number): Binding {
    if (!failure.retry) throw this.#error(failure, error);
    const now = this.read(error);
    if (number >= this.spec.maxAttempts) {
      throw this.#error(failure, error, `not tried again: attempt ${number} of ${this.spec.maxAttempts}`);
    }
    if (now.leftMs > pauseMs) return now;
    const bound = boundText(this.#binding.bound);
    throw this.#error(
      failure,
      error,
      `not tried again: ${now.leftMs} ms left, the next pause is ${pauseMs} ms (${bound})`,
    );
  }

  #expired(note?: string): Error {
    this.expire(this.#binding.bound, note);
    return this.ended ?? new Error("unreachable: an expired wait has ended");
  }

  start(): number {
    const before = this.#binding;
    const binding = this.read();
    // A wait for a socket is over: what was extended or lost meanwhile counts, and the timer follows.
    const moved = Math.abs(binding.due - before.due) >= 1 || binding.bound.name !== before.bound.name;
    if (moved) this.arm(binding, false);
    this.#binding = binding;
    if (binding.leftMs < 1) throw this.#expired();
    return binding.leftMs;
  }

  permit(): Permit {
    if (this.ended) return "cut";
    const { clock, due } = this.#binding;
    if (clock.now() < due) return "go-on";
    if (this.settled) return "cut";
    this.hurry();
    return "wait";
  }

  withhold(why: string): void {
    this.#expired(why);
  }

  hold(end: (error: Error) => void): Held {
    this.#endHeld = end;
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

/** One attempt of a call. What an attempt that is over says or asks too late does nothing, and lets nothing out. */
class Running implements Attempt {
  over = false;
  #controller: AbortController | null = null;
  #end: ((error: Error) => void) | null = null;

  constructor(
    readonly call: Call<unknown>,
    readonly number: number,
  ) {}

  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.ended) this.#controller.abort(this.ended);
    return this.#controller.signal;
  }

  get ended(): Error | null {
    return this.call.ended;
  }

  onEnd(end: (error: Error) => void): void {
    this.#end = end;
  }

  end(error: Error): void {
    this.#end?.(error);
    this.#controller?.abort(error);
  }

  start(): number {
    if (this.over) throw new Error("this attempt is over, another one may run");
    return this.call.start();
  }

  markSent(sent = true): void {
    if (!this.over) this.call.sent = sent;
  }

  permit(): Permit {
    if (this.over) return "cut";
    const permit = this.call.permit();
    // Here and no earlier: a request that has its socket may still wait for its body, and is cut before a byte of it was written.
    if (permit === "go-on") this.markSent();
    return permit;
  }

  withhold(why: string): void {
    if (!this.over) this.call.withhold(why);
  }

  fail(error: unknown): void {
    if (!this.over) this.call.end(() => error as Error);
  }

  hold(end: (error: Error) => void): Held {
    return this.call.hold(end);
  }
}

/**
 * Runs one request under the scopes in force: hook, deadline, attempts, outcome. Every adapter goes through here.
 * @internal
 */
export function runCall<T>(spec: CallSpec<T>): Promise<T> {
  return new Call(spec, frames.getStore()).run();
}
