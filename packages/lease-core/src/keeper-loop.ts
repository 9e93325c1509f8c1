import type { Timer } from "@holdfast/deadline-http";
import { outside } from "./async-context.js";
import type { KeeperCore } from "./keeper-core.js";
import { nextAct } from "./keeper-step.js";

/** While a lease is held no timer is armed for longer: after a suspend the loss is noticed this soon. */
export const longestTimerMs = 200;

/**
 * Does what falls due by itself: a renewal, a claim after a loss, the end of a quarantine, and the loss at the deadline. It looks whenever
 * the state moves and whenever its timer fires; it never waits for what it has begun, so a stalled renewal does not delay the loss.
 */
export class KeeperLoop {
  readonly #core: KeeperCore;
  #running = false;
  #acting: Promise<void> | null = null;
  #timer: Timer | null = null;
  #wake: () => void = () => undefined;

  constructor(core: KeeperCore) {
    this.#core = core;
    core.onMove = () => this.#wake();
  }

  /** Starts it, once. It runs outside every scope of the caller until `stop`. */
  start(): void {
    if (this.#running) return;
    this.#running = true;
    // The scope in which the keeper is started may close long before the loop ends.
    outside(() => void this.#run());
  }

  /** Ends it and waits for what it is doing. */
  async stop(): Promise<void> {
    this.#running = false;
    this.#wake();
    await this.#acting;
  }

  async #run(): Promise<void> {
    while (this.#running) {
      const woken = new Promise<void>((resolve) => (this.#wake = resolve));
      this.#core.feed();
      this.#startDueAct();
      this.#arm();
      await woken;
      this.#timer?.cancel();
    }
  }

  #due(): "renew" | "claim" | null {
    const next = nextAct(this.#core.state);
    const now = this.#core.o.clock.now();
    return next === null || (next.at !== null && now < next.at) ? null : next.act;
  }

  #startDueAct(): void {
    if (this.#acting !== null || this.#due() === null) return;
    this.#acting = this.#act().finally(() => {
      this.#acting = null;
      this.#wake();
    });
  }

  async #act(): Promise<void> {
    const ticket = this.#core.lock.request();
    await ticket.ready;
    try {
      // The stretch that had the lock may have renewed, or lost, the lease.
      this.#core.feed();
      const due = this.#due();
      if (this.#running && due !== null) await (due === "renew" ? this.#core.renew() : this.#core.claim(true));
    } finally {
      ticket.release();
    }
  }

  #arm(): void {
    const { phase } = this.#core.state;
    const now = this.#core.o.clock.now();
    const acting = this.#acting !== null;
    const until: number[] = [];
    if (phase.s === "held") until.push(now + longestTimerMs, phase.lease.deadline, ...(acting ? [] : [phase.renewAt]));
    if (phase.s === "quarantined") until.push(phase.until);
    if (phase.s === "reacquiring" && !acting) until.push(phase.nextClaimAt ?? now);
    if (until.length === 0) return;
    // The keeper is a resource to be stopped: its timers keep the process alive.
    this.#timer = this.#core.o.clock.setTimer(Math.max(0, Math.min(...until) - now), () => {
      this.#core.feed();
      this.#wake();
    });
  }
}
