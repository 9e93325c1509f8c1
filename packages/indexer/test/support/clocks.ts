import {
  CanceledError,
  instantAfter,
  systemClock,
  type Clock,
  type Instant,
  type Timer,
} from "@holdfast/deadline-http";

/** What all clocks here share with the machine's. */
abstract class OwnClock implements Clock {
  abstract now(): Instant;
  abstract sleep(ms: number, o?: { signal?: AbortSignal }): Promise<void>;
  abstract setTimer(ms: number, callback: () => void, o?: { unref?: boolean }): Timer;

  recheck(): Instant {
    systemClock.recheck();
    return this.now();
  }

  partings(): number {
    return systemClock.partings();
  }

  wallMs(): number {
    return systemClock.wallMs();
  }
}

/**
 * The machine's clock, which a test can move on: what is due by then fires. So a test that needs a lease to grow old gives it ten minutes
 * and moves the clock, instead of giving it three seconds, which a slow machine may need for one statement.
 */
export class MovableClock extends OwnClock {
  readonly #timers = new Set<{ readonly due: Instant; timer: Timer; fire(): void }>();
  #movedMs = 0;

  now(): Instant {
    return instantAfter(systemClock.now(), this.#movedMs);
  }

  move(ms: number): void {
    this.#movedMs += ms;
    for (const each of [...this.#timers].sort((a, b) => a.due - b.due)) {
      each.timer.cancel();
      each.timer = systemClock.setTimer(each.due - this.now(), each.fire);
    }
  }

  sleep(ms: number, o: { signal?: AbortSignal } = {}): Promise<void> {
    const { signal } = o;
    return new Promise((resolve, reject) => {
      const aborted = () => {
        timer.cancel();
        reject(new CanceledError({ outcome: "not-sent", cause: signal?.reason }));
      };
      const timer = this.setTimer(ms, () => {
        signal?.removeEventListener("abort", aborted);
        resolve();
      });
      if (signal?.aborted === true) aborted();
      else signal?.addEventListener("abort", aborted, { once: true });
    });
  }

  setTimer(ms: number, callback: () => void, o?: { unref?: boolean }): Timer {
    const fire = () => {
      this.#timers.delete(entry);
      callback();
    };
    const entry = { due: instantAfter(this.now(), ms), timer: systemClock.setTimer(ms, fire, o), fire };
    this.#timers.add(entry);
    return {
      cancel: () => {
        this.#timers.delete(entry);
        entry.timer.cancel();
      },
    };
  }
}

/**
 * A clock that only moves when somebody sleeps, and then at once, or when the test moves it: requests take no time on it, and waits take
 * none in the test. For one actor alone: sleepers do not wait for each other.
 */
export class SleepClock extends OwnClock {
  #now = systemClock.now();
  readonly #wallFromMs = systemClock.wallMs() - this.#now;

  now(): Instant {
    return this.#now;
  }

  override wallMs(): number {
    return this.#now + this.#wallFromMs;
  }

  move(ms: number): void {
    this.#now = instantAfter(this.#now, ms);
  }

  async sleep(ms: number, o: { signal?: AbortSignal } = {}): Promise<void> {
    if (o.signal?.aborted === true) throw new CanceledError({ outcome: "not-sent", cause: o.signal.reason });
    this.move(ms);
    await new Promise((resolve) => setImmediate(resolve));
  }

  /** Bounds of requests: none ends by its time. */
  setTimer(): Timer {
    return { cancel: () => undefined };
  }
}

/**
 * The machine's clock, `factor` times slower (faster, below 1): a machine that is so much faster for everybody who uses it. For protocols
 * whose waits are fixed and whose claims must be made within them.
 */
export class PacedClock extends OwnClock {
  readonly #from = systemClock.now();
  readonly #wallFromMs = systemClock.wallMs();
  readonly #factor: number;

  constructor(factor: number) {
    super();
    this.#factor = factor;
  }

  now(): Instant {
    return instantAfter(this.#from, (systemClock.now() - this.#from) / this.#factor);
  }

  override wallMs(): number {
    return this.#wallFromMs + (this.now() - this.#from);
  }

  sleep(ms: number, o?: { signal?: AbortSignal }): Promise<void> {
    return systemClock.sleep(ms * this.#factor, o);
  }

  setTimer(ms: number, callback: () => void, o?: { unref?: boolean }): Timer {
    return systemClock.setTimer(ms * this.#factor, callback, o);
  }
}
