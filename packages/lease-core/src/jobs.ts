import type { Clock } from "@holdfast/deadline-http";
import { contextHere, runIn, type Job } from "./async-context.js";

/** The jobs of `whileHeld` that run under one keeper. */
export class Jobs {
  readonly #running = new Set<Job>();
  readonly #waiters = new Set<() => void>();

  /** Runs a job and counts it as running until it settles. */
  async run<T>(fn: () => Promise<T>): Promise<T> {
    const job: Job = { running: true };
    this.#running.add(job);
    // Ended ones are left behind: a job that begins the next from inside itself would else carry all before it.
    const around = (contextHere()?.jobs ?? []).filter(({ running }) => running);
    try {
      return await runIn({ jobs: [...around, job] }, fn);
    } finally {
      job.running = false;
      this.#running.delete(job);
      this.#tell();
    }
  }

  /** Jobs other than those that the asking code is in: who releases inside its own job, or inside a job in that one, does not wait for itself. */
  othersRun(): boolean {
    const own = contextHere()?.jobs ?? [];
    return [...this.#running].some((job) => !own.includes(job));
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
