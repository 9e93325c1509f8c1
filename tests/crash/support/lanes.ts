import { Lane, LaneClosedError } from "./lane.js";

/** Lanes that work side by side. The failure of one ends the work of all. */
export class Lanes {
  readonly #lanes: Lane[] = [];
  #closed = false;

  add(o: ConstructorParameters<typeof Lane>[0]): Lane {
    if (this.#closed) throw new LaneClosedError();
    const lane = new Lane(o);
    this.#lanes.push(lane);
    return lane;
  }

  /** Resolves when no process of any lane is left. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all(this.#lanes.map((lane) => lane.close()));
  }

  /** Waits for all; when one rejects, the lanes are closed, and what it rejected with is thrown once all have ended. */
  async together<T>(work: readonly Promise<T>[]): Promise<T[]> {
    const errors: unknown[] = [];
    const ended = await Promise.allSettled(
      work.map((one) =>
        one.catch(async (error: unknown) => {
          // What is cut off by the failure of another one has not failed itself.
          if (!(error instanceof LaneClosedError)) errors.push(error);
          await this.close();
          throw error;
        }),
      ),
    );
    throwFirst(errors);
    return ended.map((one) => {
      if (one.status === "rejected") throw one.reason;
      return one.value;
    });
  }
}

/** Throws the first of some errors, where there is one; the others with it. */
export function throwFirst(errors: readonly unknown[]): void {
  const [first, ...others] = errors;
  if (errors.length === 0) return;
  if (others.length === 0) throw first;
  const message = first instanceof Error ? first.message : String(first);
  throw new AggregateError(errors, `${message} (and ${others.length} more after it)`, { cause: first });
}
