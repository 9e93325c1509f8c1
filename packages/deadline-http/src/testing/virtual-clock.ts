import { AsyncResource } from "node:async_hooks";
import { checkMs, instantAfter, type Clock, type Instant, type Timer } from "../clock.js";
import { sleepOn } from "../sleep.js";

interface Pending {
  due: number;
  readonly callback: () => void;
}

/** Turns of the event loop that are let pass before and after each timer: replies, `finally` blocks and retries settle. */
const turnsAtLeast = 3;
/** More of them, while immediates wait to be run; something that sets one in every turn would go on for ever. */
const turnsAtMost = 30;

/**
 * A clock that stands still until it is told to go on. Timers and sleepers run in the order of their due times (equal
 * ones in the order they were set), each at exactly its due time, and everything that one of them sets going is let
 * settle before the next. Work that waits for real I/O is not waited for.
 */
export class VirtualClock implements Clock {
  #now: number;
  #wallMs: number;
  #partings = 0;
  #slept = 0;
  readonly #pending = new Set<Pending>();

  /** `startMs`: the first Instant, default 0. `wallMs`: the wall clock then, default a fixed date in 2025. */
  constructor(o: { startMs?: number; wallMs?: number } = {}) {
    this.#now = o.startMs ?? 0;
    this.#wallMs = o.wallMs ?? Date.UTC(2025, 0, 1);
  }

  now(): Instant {
    return this.#now as Instant;
  }

  recheck(): Instant {
    return this.now();
  }

  partings(): number {
    return this.#partings;
  }

  sleptMs(): number {
    return this.#slept;
  }

  wallMs(): number {
    return this.#wallMs;
  }

  /** Timers and sleepers that wait. A test that ends with some has forgotten them. */
  get pending(): number {
    return this.#pending.size;
  }

  sleep(ms: number, o?: { signal?: AbortSignal }): Promise<void> {
    return sleepOn((delay, callback) => this.setTimer(delay, callback), ms, o?.signal);
  }

  setTimer(ms: number, callback: () => void): Timer {
    checkMs("timer", ms);
    // As with Node's own timers, the callback runs in the async context that set it.
    const entry: Pending = { due: instantAfter(this.now(), Math.max(0, ms)), callback: AsyncResource.bind(callback) };
    if (ms !== Infinity) this.#pending.add(entry);
    return { cancel: () => void this.#pending.delete(entry) };
  }

  /** Lets `ms` pass (0: lets what is due now run). */
  async advance(ms: number): Promise<void> {
    checkMs("advance", ms);
    const target = this.#now + ms;
    await this.#settle();
    for (let next = this.#first(target); next !== undefined; next = this.#first(target)) {
      this.#pending.delete(next);
      this.#moveTo(Math.max(this.#now, next.due));
      next.callback();
      await this.#settle();
    }
    this.#moveTo(target);
  }

  /** Steps the wall clock by `ms` (either way): no Instant moves, `partings()` grows when it is 20 ms or more. */
  stepWall(ms: number): void {
    this.#wallMs += ms;
    if (Math.abs(ms) >= 20) this.#partings += 1;
  }

  /** The machine sleeps `ms`: `now()` and the wall clock move on, timers stood still and fire that much late. */
  suspend(ms: number): void {
    this.#moveTo(this.#now + ms);
    this.#slept += ms;
    for (const entry of this.#pending) entry.due += ms;
  }

  #moveTo(at: number): void {
    this.#wallMs += at - this.#now;
    this.#now = at;
  }

  #first(target: number): Pending | undefined {
    let first: Pending | undefined;
    for (const entry of this.#pending) if (entry.due <= target && (!first || entry.due < first.due)) first = entry;
    return first;
  }

  async #settle(): Promise<void> {
    for (let turn = 0; turn < turnsAtMost; turn++) {
      if (turn >= turnsAtLeast && !process.getActiveResourcesInfo().includes("Immediate")) return;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
}
