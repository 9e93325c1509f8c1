import { firstSequence } from "../keys.js";

/**
 * How far one writer's numbers are accounted for: in the inventory, set aside, or void. Numbers are dense, so the first one
 * that is not accounted for is where something may still come, however late: the cursor never passes it.
 */
export class WriterCursor {
  #next: bigint;
  /** Accounted numbers above a gap. */
  readonly #beyond = new Set<bigint>();

  constructor(next: bigint = firstSequence) {
    this.#next = next;
  }

  /** The lowest number that is not accounted for. */
  get next(): bigint {
    return this.#next;
  }

  isAccounted(sequence: bigint): boolean {
    return sequence < this.#next || this.#beyond.has(sequence);
  }

  account(sequence: bigint): void {
    if (sequence < this.#next) return;
    this.#beyond.add(sequence);
    while (this.#beyond.delete(this.#next)) this.#next += 1n;
  }
}

/** The cursors of all writers of a catalog. */
export class Cursors {
  readonly #writers = new Map<string, WriterCursor>();

  get writers(): number {
    return this.#writers.size;
  }

  of(writerId: string): WriterCursor {
    let cursor = this.#writers.get(writerId);
    if (cursor === undefined) {
      cursor = new WriterCursor();
      this.#writers.set(writerId, cursor);
    }
    return cursor;
  }

  /** Begins a writer's cursor where the inventory says that its unbroken run of numbers ends. */
  load(writerId: string, next: bigint): void {
    if (!this.#writers.has(writerId)) this.#writers.set(writerId, new WriterCursor(next));
  }
}
