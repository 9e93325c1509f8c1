import { type Clock, type Instant, type Timer } from "@holdfast/deadline-http";
import { Heap, type Event, type EventQueue } from "./event-queue.js";
import { inThisContext, runTurn } from "./turns.js";

export interface MachineOptions {
  readonly id: number;
  readonly queue: EventQueue;
  /** Local ms for each true ms. */
  readonly rate: number;
  readonly offsetMs: number;
  /** How far its wall clock is ahead of true time. Default 0. */
  readonly wallAheadMs?: number;
  /** Virtual time that the next turn of this machine's code takes. */
  readonly turnMs: () => number;
  /** At which reading of the clock in a turn that time passes: 0 is the first, more than there are is the end of the turn. */
  readonly turnPassesAt: () => number;
}

/** Told about each machine's loop, by a checker. */
export interface LoopWatch {
  /** A callback is about to run; first thing in the turn. */
  turnBegins(machine: Machine): void;
  /** An iteration of the loop (timers, replies, immediates) that began at local time `began` is over. */
  iterationEnds(machine: Machine, began: number): void;
}

/** What a right wall clock says at true time 0. */
export const wallEpochMs = 1_750_000_000_000;

type Phase = "timers" | "replies" | "immediates";

/**
 * One process: an event loop with Node's phases, and a clock of its own. It is busy for the time that each of its turns takes, may be
 * stopped (timers stay due), suspended (timers stand still, `now()` goes on) or killed.
 */
export class Machine implements Clock {
  readonly id: number;
  dead = false;
  turns = 0;
  watch: LoopWatch | null = null;
  /** True time of the last resume from a suspend. */
  resumedAt = -Infinity;
  readonly #o: MachineOptions;
  readonly #queue: EventQueue;
  /** By the machine's timer clock, which stands still while it is suspended. */
  readonly #timers = new Heap();
  #replies: (() => void)[] = [];
  #immediates: (() => void)[] = [];
  /** What the phase found to do, and how much of it is done. */
  #batch: (() => void)[] = [];
  #batchAt = 0;
  #phase: Phase = "immediates";
  #iterationBegan = -1;
  #order = 0;
  #freeAt = 0;
  #wakeAt = Infinity;
  /** True ms of the running turn that have passed already. */
  #inTurn = 0;
  #turnLeft = 0;
  #readingsLeft = 0;
  #suspendedMs = 0;
  /** True ms that none of its clocks saw. */
  #unseenMs = 0;
  #floor = -Infinity;
  #partings = 0;

  constructor(o: MachineOptions) {
    this.id = o.id;
    this.#o = o;
    this.#queue = o.queue;
  }

  // The clock, as the code under test sees it.

  now(): Instant {
    return (this.#timerClock() + this.#suspendedMs * this.#o.rate) as Instant;
  }

  recheck(): Instant {
    if (this.#turnLeft > 0 && this.#readingsLeft-- <= 0) {
      this.#inTurn += this.#turnLeft;
      this.#turnLeft = 0;
    }
    return this.now();
  }

  partings(): number {
    return this.#partings;
  }

  wallMs(): number {
    return wallEpochMs + this.trueNow() + (this.#o.wallAheadMs ?? 0);
  }

  sleep(ms: number, o?: { signal?: AbortSignal }): Promise<void> {
    const { signal } = o ?? {};
    return new Promise((resolve, reject) => {
      const aborted = (): void => {
        timer.cancel();
        reject(Object.assign(new Error("canceled"), { code: "CANCELED", outcome: "not-sent", timedOut: false }));
      };
      const timer = this.setTimer(ms, () => {
        signal?.removeEventListener("abort", aborted);
        resolve();
      });
      if (signal?.aborted) aborted();
      else signal?.addEventListener("abort", aborted, { once: true });
    });
  }

  setTimer(ms: number, callback: () => void): Timer {
    if (Number.isNaN(ms)) throw new Error("a timer of NaN ms");
    const entry: Event = {
      at: this.#timerClock() + Math.max(0, ms),
      order: this.#order++,
      run: inThisContext(callback),
    };
    if (ms !== Infinity) {
      this.#timers.push(entry);
      this.#wake(this.#trueTimeOf(entry.at));
    }
    return { cancel: () => void (entry.run = null) };
  }

  // The world's side.

  /** True time in the running turn. */
  trueNow(): number {
    return this.#queue.now + this.#inTurn;
  }

  /** What of the running turn has passed. */
  get inTurnMs(): number {
    return this.#inTurn;
  }

  /** True time at which the clock will say `local`, unless the machine is suspended before. */
  trueTimeOfLocal(local: number): number {
    return this.#trueTimeOf(local - this.#suspendedMs * this.#o.rate);
  }

  /** What the machine's clock would say at the world's now, outside its turns. */
  localAt(trueMs: number): number {
    const { offsetMs, rate } = this.#o;
    return offsetMs + rate * (trueMs - this.#unseenMs);
  }

  /** An answer from the network: a callback of the loop's poll phase. */
  reply(callback: () => void): void {
    if (this.dead) return;
    this.#replies.push(callback);
    this.#wake(this.#queue.now);
  }

  immediate(callback: () => void): void {
    this.#immediates.push(callback);
  }

  get freeAt(): number {
    return this.#freeAt;
  }

  /** Stopped, or its loop blocked, for so long. */
  stall(ms: number): void {
    this.#freeAt = Math.max(this.#freeAt, this.#queue.now) + ms;
  }

  /** Asleep: timers stand still, the clock goes on. */
  suspend(ms: number): void {
    this.stall(ms);
    this.#suspendedMs += ms;
    this.resumedAt = this.#freeAt;
    this.#wakeAt = Infinity;
    this.#wake(this.#queue.now);
  }

  /** Paused without any of its clocks seeing it; with `noticed`, they part. */
  pauseUnseen(ms: number, noticed: boolean): void {
    this.stall(ms);
    this.#unseenMs += ms;
    if (noticed) this.#partings += 1;
    this.#wakeAt = Infinity;
    this.#wake(this.#queue.now);
  }

  /** The wall clock was stepped. */
  part(): void {
    this.#partings += 1;
  }

  kill(): void {
    this.dead = true;
  }

  #timerClock(): number {
    const { offsetMs, rate } = this.#o;
    const passed = this.#queue.now + this.#inTurn - this.#suspendedMs - this.#unseenMs;
    const clock = offsetMs + rate * passed;
    return clock > this.#floor ? clock : this.#floor;
  }

  #trueTimeOf(due: number): number {
    const { offsetMs, rate } = this.#o;
    return (due - offsetMs) / rate + this.#suspendedMs + this.#unseenMs;
  }

  #wake(at: number): void {
    const when = Math.max(at, this.#freeAt, this.#queue.now);
    if (when >= this.#wakeAt) return;
    this.#wakeAt = when;
    this.#queue.at(when, () => this.#run(when));
  }

  #run(scheduledFor: number): void {
    if (this.dead || scheduledFor !== this.#wakeAt) return;
    this.#wakeAt = Infinity;
    for (let turns = 0; this.#queue.now >= this.#freeAt; turns++) {
      const task = this.#isDead() ? null : this.#next();
      if (task === null) break;
      if (turns > 10_000) throw new Error(`machine ${this.id} turns without end at ${this.#queue.now}`);
      this.#turn(task);
    }
    if (!this.#isDead()) this.#arm();
  }

  /** A turn may end its own process. */
  #isDead(): boolean {
    return this.dead;
  }

  #arm(): void {
    if (this.#batchAt < this.#batch.length || this.#replies.length > 0 || this.#immediates.length > 0) {
      this.#wake(this.#freeAt);
      return;
    }
    while (this.#timers.first?.run === null) this.#timers.pop();
    const first = this.#timers.first;
    if (first !== undefined) this.#wake(this.#trueTimeOf(first.at));
    else if (this.#freeAt > this.#queue.now) this.#wake(this.#freeAt);
  }

  /** Phases in Node's order: due timers, answers that have arrived, immediates. */
  #next(): (() => void) | null {
    for (let tried = 0; tried < 4; tried++) {
      const task = this.#batch[this.#batchAt++];
      if (task !== undefined) return task;
      this.#batch.length = 0;
      this.#batchAt = 0;
      if (this.#phase === "immediates") this.#beginIteration();
      else if (this.#phase === "timers") {
        this.#phase = "replies";
        [this.#batch, this.#replies] = [this.#replies, []];
      } else {
        this.#phase = "immediates";
        [this.#batch, this.#immediates] = [this.#immediates, []];
      }
    }
    return null;
  }

  #beginIteration(): void {
    if (this.#iterationBegan >= 0) this.watch?.iterationEnds(this, this.#iterationBegan);
    this.#phase = "timers";
    this.#iterationBegan = this.now();
    const now = this.#timerClock() + 1e-6;
    for (let first = this.#timers.first; first !== undefined && first.at <= now; first = this.#timers.first) {
      this.#timers.pop();
      const timer = first;
      if (timer.run === null) continue;
      this.#batch.push(() => {
        if (timer.run === null) return;
        this.#floor = Math.max(this.#floor, timer.at);
        timer.run();
      });
    }
  }

  #turn(task: () => void): void {
    this.turns += 1;
    const turnMs = this.#o.turnMs();
    this.#turnLeft = turnMs;
    this.#readingsLeft = turnMs > 0 ? this.#o.turnPassesAt() : 0;
    this.#inTurn = 0;
    runTurn(this, () => {
      this.watch?.turnBegins(this);
      task();
    });
    this.#freeAt = Math.max(this.#freeAt, this.#queue.now + this.#inTurn + this.#turnLeft);
    this.#inTurn = 0;
    this.#turnLeft = 0;
  }
}
