// One message on its way in one direction: passes bytes on at once, later, one by one, or up to a limit.
import { after } from "../system-clock.js";
import type { CutBy, FlowPlan } from "./faults.js";

/** Where a valve passes its bytes, and whom it tells. */
export interface ValveEnds {
  write(bytes: Buffer): void;
  /** The limit is reached and the plan says to end the connections. */
  cut(by: CutBy): void;
  /** Everything that was pushed before `finish` has been passed on. */
  drained(): void;
}

/** A gate for bytes. It holds back everything until it has a plan and its turn has come. */
export class Valve {
  readonly #ends: ValveEnds;
  #plan: FlowPlan | null = null;
  #turn = false;
  #shut = true;
  #limit = Infinity;
  #waiting: Buffer[] = [];
  #finished = false;
  #done = false;
  #passed = 0;
  #cancel: (() => void) | null = null;

  constructor(ends: ValveEnds) {
    this.#ends = ends;
  }

  /** Bytes passed on. */
  get passed(): number {
    return this.#passed;
  }

  /** Whether it waits for a time or a release rather than for bytes. */
  get withheld(): boolean {
    return !this.#done && (this.#plan === null || this.#shut || this.#passed >= this.#limit);
  }

  push(bytes: Buffer): void {
    if (this.#done) return;
    this.#waiting.push(bytes);
    this.#flow();
  }

  /** No more bytes will come. */
  finish(): void {
    this.#finished = true;
    this.#flow();
  }

  /** Says what to do; times count from here. */
  follow(plan: FlowPlan): void {
    this.#plan = plan;
    this.#limit = plan.limit;
    if (plan.shutMs <= 0) this.#shut = false;
    else if (plan.shutMs !== Infinity) this.#cancel = after(plan.shutMs, () => this.#open());
    this.#flow();
  }

  /** Everything before it in this direction has passed. */
  takeTurn(): void {
    this.#turn = true;
    this.#flow();
  }

  /** Ends a stall or a hold: from here everything passes. Says whether there was anything to end. */
  release(): boolean {
    if (this.#done || this.#plan === null || this.#plan.cut !== null) return false;
    if (!this.#shut && this.#limit === Infinity) return false;
    this.#limit = Infinity;
    this.#open();
    return true;
  }

  /** Nothing more passes, ever; timers end. */
  drop(): void {
    this.#done = true;
    this.#waiting = [];
    this.#cancel?.();
  }

  #open(): void {
    this.#cancel?.();
    this.#shut = false;
    this.#flow();
  }

  #flow(): void {
    if (this.#done || this.#shut || !this.#turn || this.#plan === null) return;
    if (this.#plan.everyMs > 0) {
      this.#drip(this.#plan.everyMs);
      return;
    }
    while (this.#waiting.length > 0 && this.#passed < this.#limit) this.#pass(this.#limit - this.#passed);
    this.#settle();
  }

  #pass(most: number): void {
    const [first, ...rest] = this.#waiting;
    if (first === undefined) return;
    const part = first.subarray(0, most);
    this.#waiting = part.length === first.length ? rest : [first.subarray(part.length), ...rest];
    this.#passed += part.length;
    this.#ends.write(part);
  }

  #drip(everyMs: number): void {
    if (this.#cancel !== null) return;
    if (this.#waiting.length === 0) {
      this.#settle();
      return;
    }
    this.#pass(1);
    this.#cancel = after(everyMs, () => {
      this.#cancel = null;
      this.#flow();
    });
    if (this.#waiting.length === 0) this.#settle();
  }

  #settle(): void {
    if (this.#passed >= this.#limit && this.#plan?.cut != null) {
      this.#done = true;
      this.#ends.cut(this.#plan.cut);
      return;
    }
    if (!this.#finished || this.#waiting.length > 0) return;
    this.#done = true;
    this.#cancel?.();
    this.#ends.drained();
  }
}
