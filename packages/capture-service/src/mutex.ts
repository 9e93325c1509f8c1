/** Runs functions one after another, in the order of asking. */
export class Mutex {
  #last: Promise<unknown> = Promise.resolve();

  run<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(work);
    this.#last = result.catch(() => undefined);
    return result;
  }

  /** Resolves when all that was asked for until now has ended. */
  async idle(): Promise<void> {
    await this.#last;
  }
}
