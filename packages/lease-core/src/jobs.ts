import type { Clock } from "@holdfast/deadline-http";
import { contextHere, runIn } from "./async-context.js";

/** The jobs of `whileHeld` that run under one keeper. */
export class Jobs {
  readonly #running = new Set<object>();
  readonly #waiters = new Set<() => void>();

  /** Runs a job and counts it as running until it settles. */
  async run<T>(fn: () => Promise<T>): Promise<T> {
    const job = {};
    this.#running.add(job);
    try {
      return await runIn({ job }, fn);
    } finally {
      this.#running.delete(job);
      this.#tell();
    }
  }

  /** Jobs other than the one that asks: who releases inside its own job does not wait for itself. */
  othersRun(): boolean {
    const own = contextHere()?.job;
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
