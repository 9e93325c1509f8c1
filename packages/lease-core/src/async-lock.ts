/** A place in the queue of an {@link AsyncLock}. */
export interface Ticket {
  /** Resolves when the lock is ours. Never rejects. */
  readonly ready: Promise<void>;
  /** Gives the lock on, or leaves the queue. Safe to call twice. */
  release(): void;
}

/** A first-come, first-served lock for async work. */
export class AsyncLock {
  readonly #queue: { grant: () => void }[] = [];

  request(): Ticket {
    let grant = (): void => undefined;
    const ready = new Promise<void>((resolve) => (grant = resolve));
    const place = { grant };
    this.#queue.push(place);
    if (this.#queue[0] === place) grant();
    return {
      ready,
      release: () => {
        const at = this.#queue.indexOf(place);
        if (at < 0) return;
        this.#queue.splice(at, 1);
        if (at === 0) this.#queue[0]?.grant();
      },
    };
  }
}
