import type { Checkers } from "./checkers.js";
import type { Incarnation, LeaseSeen } from "./records.js";

/**
 * Who holds, and who is told so.
 *
 * - HeldPastDeadline: nothing that asks is told "held" at or after the deadline, by the clock of its machine.
 * - OneHolder: nothing is told "held" once another's claim has landed that was then granted.
 * - LossSignalled: the signal fires by the deadline, or in the first iteration of the loop that begins after it.
 * - SlowCatalogKeepsLease: in the mix for it, the lease that was taken is kept.
 */
export class Holding {
  #newest: LeaseSeen | null = null;
  #lastGrantBy: Incarnation | null = null;

  constructor(readonly all: Checkers) {}

  granted(lease: LeaseSeen, first: boolean): void {
    const { all } = this;
    if (all.healed) all.world.converged();
    if (!first) return;
    all.coverage.grants += 1;
    if (this.#lastGrantBy !== null && this.#lastGrantBy !== lease.by) all.coverage.takeovers += 1;
    this.#lastGrantBy = lease.by;
    const before = this.#newest;
    if (before !== null && before.toldHeldTrue > lease.firstLandedTrue + 1e-3 && all.strict) this.#two(before, lease);
    this.#newest = lease;
  }

  #two(old: LeaseSeen, lease: LeaseSeen): void {
    this.all.fail(
      "OneHolder",
      `lease ${old.number} was told held at ${old.toldHeldTrue.toFixed(1)}, lease ${lease.number} has held since ${lease.firstLandedTrue.toFixed(1)}`,
      old.by,
    );
  }

  told(by: Incarnation, lease: LeaseSeen): void {
    const { all } = this;
    const local = by.machine.now();
    lease.toldHeldTrue = Math.max(lease.toldHeldTrue, by.machine.trueNow());
    if (!all.strict) return;
    if (lease.confirmed === null || local >= lease.deadline) {
      all.fail(
        "HeldPastDeadline",
        `lease ${lease.number} was told held ${(local - lease.deadline).toFixed(1)} ms past its deadline`,
        by,
      );
    }
    const newest = this.#newest;
    if (newest !== null && newest !== lease && lease.toldHeldTrue > newest.firstLandedTrue + 1e-3)
      this.#two(lease, newest);
  }

  /** A whole iteration of the loop, which began at local time `began`, is over. */
  iterationEnds(by: Incarnation, began: number): void {
    const { all } = this;
    const { held, machine } = by;
    if (!held?.awaitsSignal || !all.strict) return;
    const resumed = machine.resumedAt > held.confirmed!.sentTrue ? machine.localAt(machine.resumedAt) : -Infinity;
    // Timers stood still in a suspend: the longest of them is 200 ms.
    const due = Math.max(
      held.deadline,
      Math.min(held.deadline, resumed) + 200,
      resumed + 200 * Number(resumed > -Infinity),
    );
    const by200 = resumed > -Infinity ? due : held.deadline;
    if (began > by200 + 0.01) {
      all.fail(
        "LossSignalled",
        `lease ${held.number} was over at ${by200.toFixed(1)}, and its signal has not fired in an iteration begun at ${began.toFixed(1)}`,
        by,
      );
      held.awaitsSignal = false;
    }
  }
}
