import type { Valve } from "./valve.js";

/** The valves of one direction, in order: only the first passes anything. */
export class Lane {
  readonly #valves: Valve[] = [];
  #whenEmpty: (() => void) | null = null;
  #started = false;

  get empty(): boolean {
    return this.#valves.length === 0;
  }

  /** From here valves get their turn. */
  start(): void {
    this.#started = true;
    this.#valves[0]?.takeTurn();
  }

  add(valve: Valve): void {
    this.#valves.push(valve);
    if (this.#started && this.#valves.length === 1) valve.takeTurn();
  }

  /** The first one is through. */
  next(): void {
    this.#valves.shift();
    const [first] = this.#valves;
    if (first !== undefined) {
      if (this.#started) first.takeTurn();
      return;
    }
    const then = this.#whenEmpty;
    this.#whenEmpty = null;
    then?.();
  }

  /** Runs `then` when everything has passed, at once if nothing waits. */
  afterAll(then: () => void): void {
    if (this.empty) then();
    else this.#whenEmpty = then;
  }

  /** Takes a valve out that will never pass anything. */
  remove(valve: Valve): void {
    valve.drop();
    const at = this.#valves.indexOf(valve);
    if (at === 0) this.next();
    else if (at > 0) this.#valves.splice(at, 1);
  }
}
