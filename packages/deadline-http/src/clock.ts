import { ConfigError } from "./errors.js";

/** A moment on one process's clock, in ms. Comes from {@link Clock.now}; means nothing in another process: never sent or stored. */
export type Instant = number & { readonly __clock: "monotonic" };

/** A timer that was set; cancelling one that ran or was cancelled does nothing. */
export interface Timer {
  cancel(): void;
}

/** The one source of time. Inject {@link systemClock} in production and `VirtualClock` (`./testing`) in tests. */
export interface Clock {
  /** Monotonic ms, time asleep included. Never goes back. */
  now(): Instant;
  /** As `now()`, but asks the boot clock first (4 µs on Linux): for the entry of work that a lease protects. */
  recheck(): Instant;
  /**
   * How often wall and monotonic clock have parted by 20 ms or more without the boot clock explaining it: a paused
   * virtual machine or a stepped wall clock. No Instant moves by it; who holds a lease should renew when it grew.
   */
  partings(): number;
  /**
   * Time asleep that `now()` has counted so far, in ms; it only grows. Left out, or always 0, where the monotonic clock counts sleep by
   * itself and so cannot tell it from any other time.
   */
  sleptMs?(): number;
  /** Wall clock, ms since 1970: for stamps and logs only, it can jump either way. */
  wallMs(): number;
  /**
   * Resolves no earlier than `ms` from now. Infinity never resolves. Rejects with `CANCELED` when `signal` is aborted,
   * with `CONFIG_INVALID` for NaN.
   */
  sleep(ms: number, o?: { signal?: AbortSignal }): Promise<void>;
  /**
   * Calls `callback` once, no earlier than `ms` from now; correct above 2^31-1 ms; Infinity never fires; zero and
   * negative mean the next turn; NaN throws `CONFIG_INVALID`. With `unref` it does not keep the process alive.
   */
  setTimer(ms: number, callback: () => void, o?: { unref?: boolean }): Timer;
}

/** The instant `ms` after `at` (before it, when negative). */
export function instantAfter(at: Instant, ms: number): Instant {
  return (at + ms) as Instant;
}

/**
 * Refuses NaN, which would otherwise read as "at once".
 * @internal
 */
export function checkMs(name: string, ms: number): void {
  if (Number.isNaN(ms)) throw new ConfigError(`${name} is NaN; give a number of milliseconds`);
}
