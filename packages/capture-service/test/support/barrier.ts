/** Holds what comes to it until the test opens it. Once open, it holds nothing. */
export class Barrier {
  #open = false;
  readonly #waiting = new Set<() => void>();

  /** How many wait here now. */
  get held(): number {
    return this.#waiting.size;
  }

  /** Resolves when the barrier is open; rejects with the reason of `signal` when that is aborted first. */
  pass(signal?: AbortSignal): Promise<void> {
    if (this.#open) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const onAbort = (): void => {
        this.#waiting.delete(go);
        reject(signal?.reason as Error);
      };
      const go = (): void => {
        signal?.removeEventListener("abort", onAbort);
        resolve();
      };
      this.#waiting.add(go);
      if (signal?.aborted) onAbort();
      else signal?.addEventListener("abort", onAbort, { once: true });
    });
  }

  open(): void {
    this.#open = true;
    for (const go of this.#waiting) go();
    this.#waiting.clear();
  }
}
