import type { Clock, Instant, Timer } from "./clock.js";

/** A timer later than this was held up by the event loop or a suspend, not by rounding. */
const lateMs = 20;

/**
 * Calls `expire` when `due` has come. A timer that fires over 20 ms late lets one poll phase pass first: after a stall
 * timers run before the replies that already lie in the socket, and such a reply counts. `loopDelayMs` is how late it
 * was (0 when on time). Looks at the clock at least every `stepMs`, so that a suspend is noticed.
 * @internal
 */
export class DeadlineTimer implements Timer {
  #timer: Timer | null = null;
  #canceled = false;
  #hurried = false;
  /** When it can fire at the earliest: at once, of a deadline that had passed before. */
  readonly #from: number;

  constructor(
    readonly clock: Clock,
    readonly due: Instant,
    readonly stepMs: number,
    readonly expire: (loopDelayMs: number) => void,
  ) {
    const now = clock.now();
    this.#from = Math.max(due, now);
    this.#arm(due - now);
  }

  cancel(): void {
    this.#canceled = true;
    this.#timer?.cancel();
  }

  /** Looks at the clock in the next turn already. Once: to be hurried in every turn would put it off for ever. */
  hurry(): void {
    if (this.#hurried || this.#canceled) return;
    this.#hurried = true;
    this.#timer?.cancel();
    this.#arm(0);
  }

  #arm(leftMs: number): void {
    this.#timer = this.clock.setTimer(Math.min(leftMs, this.stepMs), () => this.#tick());
  }

  #tick(): void {
    const now = this.clock.now();
    const late = now - this.#from;
    if (now < this.due) {
      this.#arm(this.due - now);
      return;
    }
    this.#hurried = true;
    if (late <= lateMs) this.expire(0);
    else
      setImmediate(() => {
        if (!this.#canceled) this.expire(Math.round(late));
      });
  }
}

/**
 * The delay of the loop as a timeout reports it.
 * @internal
 */
export function lateNote(loopDelayMs: number): string | undefined {
  return loopDelayMs > 0 ? `the event loop was ${loopDelayMs} ms late` : undefined;
}
