import { detached, within } from "@holdfast/deadline-http";
import { abortError, ObjectStoreError, onAbort, throwIfAborted, untilAborted } from "@holdfast/object-store";

/**
 * The calls of one store: each ends by the tightest of its signal, the deadline in force where it was made, and the end of the store. The work
 * behind it is then told to stop by a signal of its own, and the store knows it until it has stopped.
 */
export class CallScope {
  readonly #working = new Set<Promise<unknown>>();
  readonly #closed = new AbortController();

  /** Runs `work`; ends at once when the call must, while `work` is still stopping. Starts nothing when the call has no time left. */
  async run<T>(name: string, signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    throwIfAborted(signal);
    throwIfAborted(this.#closed.signal);
    // Rejects past a deadline and in a scope that was left: no new call may start there.
    await detached(() => Promise.resolve());
    const end = new AbortController();
    const stop = (reason: unknown): void => end.abort(reason);
    const forget = [signal, this.#closed.signal].map((one) => onAbort(one, () => stop(abortError(one))));
    try {
      const bounded = within(Infinity, () => this.#known(work(end.signal)), { name });
      return await untilAborted(untilAborted(bounded, this.#closed.signal), signal);
    } catch (error) {
      stop(error);
      throw error;
    } finally {
      for (const one of forget) one();
    }
  }

  /** Ends every call with `CANCELED`, and waits until the work behind them has stopped. */
  async close(): Promise<void> {
    this.#closed.abort(new ObjectStoreError("CANCELED", "the store was disposed of"));
    await Promise.allSettled(this.#working);
  }

  async #known<T>(work: Promise<T>): Promise<T> {
    this.#working.add(work);
    try {
      return await work;
    } finally {
      this.#working.delete(work);
    }
  }
}
