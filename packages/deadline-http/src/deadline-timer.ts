import type { Clock, Instant, Timer } from "./clock.js";

/** A timer later than this was held up by the event loop or a suspend, not by rounding. */
const lateMs = 20;

/**
 * Calls `expire` when `due` has come. A timer that fires over 20 ms late lets one poll phase pass first: after a stall
 * timers run before the replies that already lie in the socket, and such a reply counts. `loopDelayMs` is how late it
 * was (0 when on time). Looks at the clock at least every `stepMs`, so that a suspend is noticed.
 * @internal
 */
export function deadlineTimer(
  clock: Clock,
  due: Instant,
  stepMs: number,
  expire: (loopDelayMs: number) => void,
): Timer {
  let canceled = false;
  const tick = (): void => {
    const late = clock.now() - due;
    if (late < 0) arm();
    else if (late <= lateMs) expire(0);
    else
      setImmediate(() => {
        if (!canceled) expire(Math.round(late));
      });
  };
  let timer: Timer;
  const arm = (): void => {
    timer = clock.setTimer(Math.min(due - clock.now(), stepMs), tick);
  };
  arm();
  return {
    cancel: () => {
      canceled = true;
      timer.cancel();
    },
  };
}

/**
 * The delay of the loop as a timeout reports it.
 * @internal
 */
export function lateNote(loopDelayMs: number): string | undefined {
  return loopDelayMs > 0 ? `the event loop was ${loopDelayMs} ms late` : undefined;
}
