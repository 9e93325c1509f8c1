/** Something that happens at a moment; of one moment in the order in which it was asked for. */
export interface Event {
  readonly at: number;
  readonly order: number;
  /** Null: called off. */
  run: (() => void) | null;
}

const before = (a: Event, b: Event): boolean => a.at < b.at || (a.at === b.at && a.order < b.order);

/** A heap whose earliest event comes first. */
export class Heap {
  readonly #items: Event[] = [];

  get first(): Event | undefined {
    return this.#items[0];
  }

  push(item: Event): void {
    const items = this.#items;
    let at = items.length;
    items.push(item);
    while (at > 0) {
      const up = (at - 1) >> 1;
      if (!before(item, items[up]!)) break;
      items[at] = items[up]!;
      at = up;
    }
    items[at] = item;
  }

  pop(): Event | undefined {
    const items = this.#items;
    const first = items[0];
    const last = items.pop();
    if (last === undefined || items.length === 0) return first;
    let at = 0;
    for (;;) {
      let down = 2 * at + 1;
      if (down >= items.length) break;
      if (down + 1 < items.length && before(items[down + 1]!, items[down]!)) down += 1;
      if (!before(items[down]!, last)) break;
      items[at] = items[down]!;
      at = down;
    }
    items[at] = last;
    return first;
  }
}

/** True time, in ms, and what happens at which moment of it. Everything in a run is driven from here. */
export class EventQueue {
  now = 0;
  #order = 0;
  #halted = false;
  #stillFor = 0;
  readonly #events = new Heap();

  /** Runs `run` at true time `at` (now, when that is past). */
  at(at: number, run: () => void): void {
    this.#events.push({ at: Math.max(at, this.now), order: this.#order++, run });
  }

  after(ms: number, run: () => void): void {
    this.at(this.now + ms, run);
  }

  /** Nothing runs after the event that calls this. */
  halt(): void {
    this.#halted = true;
  }

  runUntil(end: number): void {
    for (;;) {
      const next = this.#events.first;
      if (this.#halted || next === undefined || next.at > end) break;
      this.#events.pop();
      this.#stillFor = next.at > this.now ? 0 : this.#stillFor + 1;
      if (this.#stillFor > 10_000) throw new Error(`time stands still at ${this.now}`);
      this.now = next.at;
      next.run?.();
    }
    if (!this.#halted) this.now = end;
  }
}
