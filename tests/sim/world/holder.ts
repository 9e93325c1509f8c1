import { within } from "@holdfast/deadline-http";
import { createLeaseKeeper, type Held, type LeaseKeeper, type Stretch } from "@holdfast/lease-core";
import type { Checkers } from "../checkers/checkers.js";
import type { Incarnation, LeaseSeen } from "../checkers/records.js";
import { leaseName } from "./catalog.js";
import type { Machine } from "./machine.js";
import { between, chance, type Random } from "./prng.js";
import type { Port } from "./port.js";

/** Codes that a holder's program has to expect; anything else is a fault of the product or of the simulator. */
const expected = new Set([
  ...["LEASE_HELD", "LEASE_LOST", "LEASE_QUARANTINED", "CLAIM_NOT_RECORDED", "LEASE_LATCHED"],
  ...["DEADLINE_EXCEEDED", "REQUEST_FAILED", "CANCELED", "SCOPE_CLOSED"],
]);

const factsOf = (error: unknown): { code?: string; outcome?: string } => error as { code?: string; outcome?: string };

/**
 * The program of one process: it takes the lease, works under it in jobs and stretches, reacts to its loss, gives it back now and then,
 * and begins again. It treats unknown outcomes as the keeper's users must.
 */
export class Holder {
  #keeper: LeaseKeeper | null = null;
  #held: { view: Held; lease: LeaseSeen } | null = null;
  readonly #looks: Random;
  #wake: (() => void) | null = null;

  constructor(
    readonly by: Incarnation,
    readonly port: Port,
    readonly all: Checkers,
    readonly random: Random,
    looks: Random,
    readonly ended: () => void,
  ) {
    this.#looks = looks;
  }

  get keeper(): LeaseKeeper {
    if (this.#keeper === null) throw new Error("the program has not begun");
    return this.#keeper;
  }

  get #machine(): Machine {
    return this.by.machine;
  }

  start(): void {
    this.#machine.reply(() => {
      this.#main().catch((error: unknown) => this.#unexpected(error));
    });
  }

  async #main(): Promise<void> {
    const { mix } = this.all;
    this.#keeper = createLeaseKeeper({
      name: leaseName,
      holder: this.by.holder,
      leaseTable: this.port,
      lease: {
        ttlMs: mix.ttlMs,
        clockSkewMs: mix.clockSkewMs,
        publishTimeoutMs: mix.publishMs,
        acquirePollMs: mix.pollMs,
        topology: mix.clockSkewMs > 0 ? "cloud" : "single",
      },
      requestTimeoutMs: mix.requestMs,
      reacquire: this.by.reacquire,
      createTable: false,
      clock: this.#machine,
      random: this.random,
    });
    this.keeper.onChange(({ to, why }) => {
      this.all.keeper.changed(this.by, to, why, to === "failed" ? this.keeper.status().heldBy : undefined);
      this.#wake?.();
    });
    while (this.by.state !== "failed") {
      await this.#acquire();
      if (this.by.state === "held") await this.#work();
      else if (this.by.state !== "failed") await this.#moved(this.all.mix.ttlMs);
    }
    await this.keeper.stop();
    this.ended();
  }

  /** Resolves when the keeper's state moves, or after `mostMs`. */
  async #moved(mostMs: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = this.#machine.setTimer(mostMs, resolve);
      this.#wake = () => {
        timer.cancel();
        resolve();
      };
    });
    this.#wake = null;
  }

  async #acquire(): Promise<void> {
    const { by } = this;
    // The keeper seeks a lost lease by itself.
    if (by.state === "held" || by.state === "reacquiring") return;
    if (by.state === "quarantined" && by.reacquire !== "no") return;
    try {
      // Alike in all they do, or waiting for a holder that never goes.
      const { profile } = this.all.mix;
      const once = profile === "symmetric" || (profile !== "fault-free" && chance(this.random, 0.5));
      if (by.reacquire !== "no" && once) {
        await this.keeper.tryAcquire();
        return;
      }
      by.acquiring = true;
      await this.keeper.acquire(
        chance(this.random, 0.7) ? {} : { waitMs: Math.floor(this.random() * 2 * this.all.mix.ttlMs) },
      );
    } catch (error) {
      this.#expect(error);
      await this.#machine.sleep(between(this.random, 0.05, 0.3) * this.all.mix.ttlMs);
    } finally {
      by.acquiring = false;
    }
  }

  async #work(): Promise<void> {
    // Set outside the job: who releases inside one does not wait for it.
    this.#releaseSometime(this.by.held);
    this.#stretchBeside(this.by.held);
    try {
      await this.keeper.whileHeld((view) => this.#job(view));
    } catch (error) {
      // Being given back, perhaps.
      this.#expect(error);
      await this.#machine.sleep(5);
    }
  }

  async #job(view: Held): Promise<void> {
    const { all } = this;
    const lease = all.known(view.leaseId);
    const held = { view, lease };
    this.#held = held;
    lease.awaitsSignal = !view.signal.aborted;
    view.signal.addEventListener("abort", () => {
      lease.awaitsSignal = false;
      all.world.log.add(this.#machine.trueNow(), this.by.machine.id, "signal", lease.number);
    });
    try {
      while (!view.signal.aborted) await this.#act(view, lease);
    } finally {
      if (this.#held === held) this.#held = null;
    }
  }

  #releaseSometime(lease: LeaseSeen | null): void {
    const { mix, healed } = this.all;
    if (mix.releases === 0 || healed || lease === null) return;
    const inMs = (-Math.log(1 - this.random()) * 10 * mix.ttlMs) / mix.releases;
    this.#machine.setTimer(inMs, () => {
      if (lease.ended || this.by.held !== lease || this.all.healed) return;
      this.by.releaseBegan = this.#machine.now();
      this.keeper.release().catch((error: unknown) => this.#unexpected(error));
    });
  }

  /** A stretch that is no part of a job: a release waits for it by the lock alone. */
  #stretchBeside(lease: LeaseSeen | null): void {
    const { mix } = this.all;
    if (lease === null || mix.profile !== "swarm" || !chance(this.random, 0.4)) return;
    this.#machine.setTimer(this.random() * 2 * mix.ttlMs, () => {
      this.#stretch(lease).catch((error: unknown) => this.#expect(error));
    });
  }

  async #act(view: Held, lease: LeaseSeen): Promise<void> {
    const { random, all } = this;
    const { ttlMs, idleTtls } = all.mix;
    const draw = random();
    try {
      if (draw < 0.45) await this.#pause(view, random() * idleTtls * ttlMs);
      else if (draw < 0.65 || all.mix.profile === "fault-free") await this.#fencedInJob(view);
      else if (draw < 0.9 || all.mix.profile !== "swarm") await this.#stretch(lease);
      else await within(between(random, 0.02, 0.5) * ttlMs, () => this.#stretch(lease), { clock: this.#machine });
    } catch (error) {
      this.#expect(error);
      await this.#machine.sleep(1 + random() * 0.05 * ttlMs);
    }
  }

  async #pause(view: Held, ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const done = (): void => {
        timer.cancel();
        view.signal.removeEventListener("abort", done);
        resolve();
      };
      const timer = this.#machine.setTimer(ms, done);
      view.signal.addEventListener("abort", done, { once: true });
    });
  }

  async #fencedInJob(view: Held): Promise<void> {
    const { all } = this;
    const fence = view.fence();
    try {
      const bound = { clock: this.#machine, name: "bound of the job" };
      await within(all.mix.publishMs * 1.2, () => this.port.insertFenced(fence, () => undefined), bound);
    } catch (error) {
      if (factsOf(error).outcome === "unknown") this.#quarantine(view.leaseId, () => view.quarantine(error));
      throw error;
    }
  }

  /** What the checkers have to know: from here on nothing may be claimed for a TTL, if the lease was ours still. */
  #quarantine(leaseId: string, tell: () => void): void {
    const { by } = this;
    const now = this.#machine.recheck();
    const { held } = by;
    const ours = held !== null && held.id === leaseId && !held.ended && now < held.deadline;
    if (ours) by.quarantinedUntil = Math.max(by.quarantinedUntil, now + this.all.mix.ttlMs);
    tell();
  }

  #stretch(lease: LeaseSeen): Promise<void> {
    const { random, all, by } = this;
    const slow = all.mix.profile === "slow";
    const requests = 1 + Math.floor(random() * (slow ? 12 : 5));
    return this.keeper.exclusive(async (stretch) => {
      const seen = stretch.leaseId === lease.id ? lease : all.known(stretch.leaseId);
      const sent = (): void => all.keeper.requestInStretch(by, seen);
      for (let n = 0; n < requests; n++) {
        if (chance(random, 0.5)) await this.port.readSomething(sent);
        else await this.#fencedInStretch(stretch, sent);
      }
    });
  }

  async #fencedInStretch(stretch: Stretch, sent: () => void): Promise<void> {
    const fence = stretch.fence();
    try {
      await this.port.insertFenced(fence, sent);
    } catch (error) {
      if (factsOf(error).outcome === "unknown") this.#quarantine(stretch.leaseId, () => stretch.quarantine(error));
      throw error;
    }
  }

  /** What anything that asks is told: the first act of a turn. */
  look(): void {
    const { all, by } = this;
    if (this.#keeper === null) return;
    // Each of the two ways to ask first, half of the time: the other would find what it has set right.
    const held = this.#held;
    if (chance(this.#looks, 0.5)) this.#check(held);
    const status = this.keeper.status();
    if (by.held !== null && this.#machine.now() >= by.held.deadline) all.coverage.looksAfterDeadline += 1;
    if (status.state === "held") all.holding.told(by, all.known(status.leaseId!));
    all.keeper.streak(by, status.leaseTimeouts);
    this.#check(held);
  }

  #check(held: { view: Held; lease: LeaseSeen } | null): void {
    if (held !== null && held.view.check() === "held") this.all.holding.told(this.by, held.lease);
  }

  #expect(error: unknown): void {
    if (!expected.has(factsOf(error).code ?? "")) this.#unexpected(error);
  }

  #unexpected(error: unknown): void {
    if (this.#machine.dead) return;
    this.all.fail(
      "NoUnexpectedError",
      error instanceof Error ? (error.stack ?? error.message) : String(error),
      this.by,
    );
  }
}
