import { QueryError } from "./clickhouse-errors.js";

/** A place among the running queries; `release` gives it to the next that waits. Releasing twice is harmless. */
export type Slot = { release(): void };
type Waiter = { enter(): void; leave(error: Error): void };

/**
 * Lets at most `running` queries into the engine and at most `waiting` wait, in order of arrival. More is an error 202, as the server
 * gives it.
 */
export class Admission {
  readonly #limits: { readonly running: number; readonly waiting: number };
  readonly #queue = new Set<Waiter>();
  #running = 0;

  constructor(limits: { readonly running: number; readonly waiting: number }) {
    this.#limits = limits;
  }

  /** Waits for a slot; the signal's reason ends the wait. */
  async enter(signal: AbortSignal): Promise<Slot> {
    signal.throwIfAborted();
    if (this.#running < this.#limits.running) {
      this.#running++;
      return this.#slot();
    }
    if (this.#queue.size >= this.#limits.waiting) {
      throw QueryError.of(
        202,
        `Too many simultaneous queries. ${this.#running} run and ${this.#queue.size} wait, which is the most (maxConcurrentQueries).`,
      );
    }
    return new Promise<Slot>((resolve, reject) => {
      const onAbort = (): void => waiter.leave(signal.reason as Error);
      const waiter: Waiter = {
        enter: () => {
          signal.removeEventListener("abort", onAbort);
          resolve(this.#slot());
        },
        leave: (error) => {
          this.#queue.delete(waiter);
          reject(error);
        },
      };
      this.#queue.add(waiter);
      signal.addEventListener("abort", onAbort, { once: true });
    });
  }

  #slot(): Slot {
    let held = true;
    return {
      release: () => {
        if (!held) return;
        held = false;
        const [next] = this.#queue;
        if (next === undefined) {
          this.#running--;
          return;
        }
        this.#queue.delete(next);
        next.enter();
      },
    };
  }
}
