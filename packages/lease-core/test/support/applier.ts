import { until } from "@holdfast-private/tests-machine";
import { SchemaLease, type SchemaLeaseOptions } from "../../src/index.js";
import { SteppingClock } from "./clocks.js";

/**
 * A schema lease by a clock that stands still until a test lets time pass: so no claim of it is slow because the machine is, and its settle
 * is over when the test says so, which is when every rival's claim has come.
 */
export class Applier {
  readonly clock: SteppingClock;
  readonly lease: SchemaLease;
  #acquiring: Promise<boolean> | null = null;

  constructor(o: Omit<SchemaLeaseOptions, "clock">, wallMs = Date.now()) {
    this.clock = new SteppingClock({ wallMs });
    this.lease = new SchemaLease({ ...o, clock: this.clock });
  }

  /** Begins to acquire. */
  begin(): this {
    const ended = () => (this.#acquiring = null);
    this.#acquiring = this.lease.acquire();
    this.#acquiring.then(ended, ended);
    return this;
  }

  /** Waits until it settles: its claim has been answered, and it has not read again. False: it came to its end without. */
  async settles(): Promise<boolean> {
    await until("a claim settles", () => this.clock.sleepers > 0 || this.#acquiring === null);
    return this.clock.sleepers > 0;
  }

  /** Ends what was begun, its settle included. */
  async end(): Promise<boolean> {
    const acquiring = this.#acquiring ?? Promise.resolve(false);
    while (await this.settles()) await this.clock.wake();
    return acquiring;
  }

  acquire(): Promise<boolean> {
    return this.begin().end();
  }
}
