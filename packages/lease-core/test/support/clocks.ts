import { instantAfter, systemClock, type Clock, type Timer } from "@holdfast/deadline-http";
import { VirtualClock } from "@holdfast/deadline-http/testing";

/** The machine's clock, and what a test does to it: so an instant can come that nobody waits for. */
export class MovedClock implements Clock {
  #aheadMs = 0;
  #partings = 0;

  /** `wallOffMs`: by how much its wall clock is wrong. */
  constructor(readonly wallOffMs = 0) {}

  now() {
    return instantAfter(systemClock.now(), this.#aheadMs);
  }
  recheck() {
    return instantAfter(systemClock.recheck(), this.#aheadMs);
  }
  partings() {
    return this.#partings;
  }
  wallMs() {
    return systemClock.wallMs() + this.wallOffMs;
  }
  sleep(ms: number, o?: { signal?: AbortSignal }) {
    return systemClock.sleep(ms, o);
  }
  setTimer(ms: number, callback: () => void, o?: { unref?: boolean }) {
    return systemClock.setTimer(ms, callback, o);
  }

  /** So much has passed; timers that wait are left as they are. */
  pass(ms: number): void {
    this.#aheadMs += ms;
  }

  /** Wall and monotonic clock part without an explanation: what is held is due to be renewed. */
  part(): void {
    this.#partings += 1;
  }
}

/** A virtual clock that tells when its timers are due and who sleeps by it, so that a test can go from one to the next. */
export class SteppingClock extends VirtualClock {
  readonly #due = new Map<object, number>();
  readonly #sleeping = new Map<object, number>();
  /** What it says instead of its own wall clock. */
  wall: number | null = null;

  override wallMs(): number {
    return this.wall ?? super.wallMs();
  }

  override setTimer(ms: number, callback: () => void): Timer {
    const key = {};
    this.#due.set(key, this.now() + Math.max(0, ms));
    const timer = super.setTimer(ms, () => {
      this.#due.delete(key);
      callback();
    });
    return {
      cancel: () => {
        this.#due.delete(key);
        timer.cancel();
      },
    };
  }

  override sleep(ms: number, o?: { signal?: AbortSignal }): Promise<void> {
    const key = {};
    this.#sleeping.set(key, this.now() + ms);
    return super.sleep(ms, o).finally(() => this.#sleeping.delete(key));
  }

  override suspend(ms: number): void {
    super.suspend(ms);
    for (const [key, due] of this.#due) this.#due.set(key, due + ms);
  }

  /** A timer is due in exactly so long. */
  dueIn(ms: number): boolean {
    return [...this.#due.values()].includes(this.now() + ms);
  }

  /** How many sleep by this clock. */
  get sleepers(): number {
    return this.#sleeping.size;
  }

  /** Goes on to the next timer, and never by more than `mostMs`. */
  async next(mostMs = 1000): Promise<void> {
    const due = Math.min(...this.#due.values(), this.now() + mostMs);
    await this.advance(Math.max(0, due - this.now()));
  }

  /** Goes on to the end of the sleep that ends first. */
  async wake(): Promise<void> {
    await this.advance(Math.max(0, Math.min(...this.#sleeping.values()) - this.now()));
  }
}
