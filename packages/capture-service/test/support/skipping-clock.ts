import { AsyncResource } from "node:async_hooks";
import {
  CanceledError,
  instantAfter,
  systemClock,
  type Clock,
  type Instant,
  type Timer,
} from "@holdfast/deadline-http";

interface Pending {
  readonly due: Instant;
  readonly callback: () => void;
  timer: Timer | null;
}

/**
 * The system's clock, on which a test can skip time: what waits for an instant that is skipped is called back at once, in the order of
 * the instants. Between two skips it runs as the system's clock does. So a test gives its lease a TTL that no stall of the machine
 * outlasts, and still comes to the end of it without waiting.
 */
export class SkippingClock implements Clock {
  #skippedMs = 0;
  #sleepers = 0;
  readonly #pending = new Set<Pending>();

  /** Timers and sleeps that wait: what can still act by itself. */
  get pending(): number {
    return this.#pending.size;
  }

  /** Sleeps that wait, timers not counted. */
  get sleepers(): number {
    return this.#sleepers;
  }

  /** Lets `ms` pass now. */
  skip(ms: number): void {
    this.#skippedMs += ms;
    const due = [...this.#pending].filter((entry) => entry.due <= this.now()).sort((a, b) => a.due - b.due);
    for (const entry of due) this.#fire(entry);
    for (const entry of this.#pending) if (entry.timer !== null) this.#arm(entry);
  }

  now(): Instant {
    return instantAfter(systemClock.now(), this.#skippedMs);
  }
  recheck(): Instant {
    return instantAfter(systemClock.recheck(), this.#skippedMs);
  }
  partings(): number {
    return systemClock.partings();
  }
  sleptMs(): number {
    return systemClock.sleptMs?.() ?? 0;
  }
  wallMs(): number {
    return systemClock.wallMs() + this.#skippedMs;
  }

  async sleep(ms: number, o: { signal?: AbortSignal } = {}): Promise<void> {
    const { signal } = o;
    const canceled = () => new CanceledError({ outcome: "not-sent", note: "it ended a sleep", cause: signal?.reason });
    if (signal?.aborted) throw canceled();
    this.#sleepers += 1;
    try {
      await new Promise<void>((resolve, reject) => {
        const onAbort = (): void => {
          timer.cancel();
          reject(canceled());
        };
        const timer = this.setTimer(ms, () => {
          signal?.removeEventListener("abort", onAbort);
          resolve();
        });
        signal?.addEventListener("abort", onAbort, { once: true });
      });
    } finally {
      this.#sleepers -= 1;
    }
  }

  /** Never unref'd: the test waits for what it set going. */
  setTimer(ms: number, callback: () => void): Timer {
    const entry: Pending = { due: instantAfter(this.now(), ms), callback: AsyncResource.bind(callback), timer: null };
    this.#pending.add(entry);
    this.#arm(entry);
    return {
      cancel: () => {
        entry.timer?.cancel();
        this.#pending.delete(entry);
      },
    };
  }

  #arm(entry: Pending): void {
    entry.timer?.cancel();
    entry.timer = systemClock.setTimer(entry.due - this.now(), () => this.#fire(entry));
  }

  #fire(entry: Pending): void {
    // One that an earlier one of the same skip has cancelled does not run.
    if (!this.#pending.delete(entry)) return;
    entry.timer?.cancel();
    entry.callback();
  }
}
