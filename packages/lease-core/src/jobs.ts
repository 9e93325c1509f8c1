import { AsyncLocalStorage } from "node:async_hooks";
import type { Clock } from "@holdfast/deadline-http";

const current = new AsyncLocalStorage<object>();

/** The jobs of `whileHeld` that run under one keeper. */
export class Jobs {
  readonly #running = new Set<object>();
  readonly #waiters = new Set<() => void>();

  /** Runs a job and counts it as running until it settles. */
  async run<T>(fn: () => Promise<T>): Promise<T> {
    const job = {};
    this.#running.add(job);
    try {
      return await current.run(job, fn);
    } finally {
      this.#running.delete(job);
      this.#tell();
    }
  }

  /** Jobs other than the one that asks: who releases inside its own job does not wait for itself. */
  othersRun(): boolean {
    const own = current.getStore();
    return [...this.#running].some((job) => job !== own);
  }

  /** Waits until no other job runs, for `mostMs` at most. */
  async ended(clock: Clock, mostMs: number): Promise<void> {
    const time = { isUp: false };
    const end = clock.setTimer(mostMs, () => {
      time.isUp = true;
      this.#tell();
    });
    while (this.othersRun() && !time.isUp) await new Promise<void>((resolve) => this.#waiters.add(resolve));
    end.cancel();
  }

  #tell(): void {
    for (const look of this.#waiters) look();
    this.#waiters.clear();
  }
}
