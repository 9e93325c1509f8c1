import type { EventQueue } from "./event-queue.js";
import type { Random } from "./prng.js";

export interface SchemaRow {
  readonly holder: string;
  readonly acquiredMs: number;
  readonly expiresMs: number;
  readonly released: boolean;
}

interface Stored {
  readonly row: SchemaRow;
  /** True time from which each replica has it. */
  readonly from: readonly number[];
}

/**
 * The table of the schema lease on replicas: rows have one order, that of their insertion, and each replica has them some time later.
 * FINAL names the greatest stamp, and of equal ones the last inserted.
 */
export class SchemaTable {
  readonly stalledUntil = 0;
  readonly #rows: Stored[] = [];

  constructor(
    readonly queue: EventQueue,
    readonly replicas: number,
    readonly lagMs: number,
    readonly random: Random,
  ) {}

  server(): number {
    return Math.floor(this.random() * this.replicas);
  }

  insert(row: SchemaRow, server: number): void {
    const { now } = this.queue;
    const from = Array.from({ length: this.replicas }, (_, replica) =>
      replica === server ? now : now + this.random() * this.lagMs,
    );
    this.#rows.push({ row, from });
  }

  /** The row that FINAL names at a replica; without one, among all that were ever inserted. */
  final(replica: number | null): SchemaRow | null {
    let best: SchemaRow | null = null;
    for (const { row, from } of this.#rows) {
      if (replica !== null && from[replica]! > this.queue.now) continue;
      if (best === null || row.acquiredMs >= best.acquiredMs) best = row;
    }
    return best;
  }
}
