/** A promise of durability for records that were appended together. */
export interface Receipt {
  /** Ids of the records, in the order in which they were given. */
  readonly captureIds: readonly string[];
  /**
   * Resolves when all records are on disk: their blocks written, fdatasynced, and the file's name made durable. Rejects with
   * SPOOL_UNWRITABLE when the disk refused them, or STOPPED; then they may or may not be kept, as after a crash before
   * the receipt. Safe to call at any time and any number of times, or never.
   */
  durable(): Promise<void>;
}

/** The spool's side of a receipt. */
export class ReceiptKeeper implements Receipt {
  readonly #promise: Promise<void>;
  #resolve!: () => void;
  #reject!: (error: Error) => void;
  #open: number;

  constructor(readonly captureIds: readonly string[]) {
    this.#open = captureIds.length;
    this.#promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    // Nobody has to ask; a refusal that nobody asked about is in the status and must not end the process.
    this.#promise.catch(() => undefined);
    if (this.#open === 0) this.#resolve();
  }

  durable(): Promise<void> {
    return this.#promise;
  }

  /** One more of the records is durable. */
  settleOne(): void {
    this.#open -= 1;
    if (this.#open === 0) this.#resolve();
  }

  refuse(error: Error): void {
    this.#reject(error);
  }
}
