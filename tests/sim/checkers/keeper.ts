import type { Checkers } from "./checkers.js";
import type { Incarnation, LeaseSeen } from "./records.js";

/**
 * The keeper's states.
 *
 * - NoFalseLatch: a keeper gives up only when others alone have refused it for 2 × TTL; nobody latches against itself.
 * - LatchesInTime: and it does give up then.
 * - KnownOutcomeNeverQuarantines: a quarantine has a reason that the table or the clock can show.
 * - StreakKept: the count of timeouts falls only when one lease was held for 2 × TTL.
 * - RequestUnderLostLease: a stretch sends nothing once its lease is over.
 */
export class KeeperStates {
  constructor(readonly all: Checkers) {}

  changed(by: Incarnation, to: string, why: string, heldBy: string | undefined): void {
    const { all } = this;
    const from = by.state;
    const { held, machine } = by;
    const local = machine.now();
    by.state = to;
    all.world.log.add(machine.trueNow(), machine.id, "state", from, to);
    all.world.log.note(why);
    if (from === "held" && held !== null) this.#left(by, held, to, local);
    if (to === "held") {
      by.heldSince = local;
      const { held: now } = by;
      if (all.strict && (now === null || now.ended)) {
        all.fail("SoleGrantPerTerm", "holds a lease that no read-back found alone in time", by);
      }
    }
    if (to === "reacquiring") by.seekRefusedSince = null;
    if (to === "quarantined") by.quarantinedTrue = machine.trueNow();
    if (to === "failed") this.#latched(by, local, heldBy);
    if (to === "quarantined") this.#quarantined(by, from, local);
    // That release is over: it excuses no later quarantine.
    if (from === "held") by.releaseBegan = Infinity;
  }

  #left(by: Incarnation, held: LeaseSeen, to: string, local: number): void {
    const { all } = this;
    const { machine } = by;
    const late = local >= held.deadline;
    held.ended = true;
    held.endedInTurn = machine.turns;
    by.heldLongest = Math.max(by.heldLongest, local - by.heldSince);
    if (late) by.quarantinedUntil = Math.max(by.quarantinedUntil, held.deadline + all.mix.ttlMs);
    if (to === "released") return;
    all.coverage.losses += 1;
    if (all.mix.profile === "slow") {
      all.fail("SlowCatalogKeepsLease", `lease ${held.number} was lost (${to})`, by);
    }
  }

  #quarantined(by: Incarnation, from: string, local: number): void {
    const { all } = this;
    all.coverage.quarantines += 1;
    if (!all.strict) return;
    const seenLate = by.confirmedInTurn === by.machine.turns && local >= by.confirmedEnd;
    const abandoned = from === "held" && by.held !== null && local >= by.held.deadline;
    const jobsRunOn = from === "held" && local >= by.releaseBegan + all.mix.ttlMs - 1;
    const unknown = by.openClaim !== null || by.unknownInTurn === by.machine.turns;
    const reason = jobsRunOn || unknown || by.quarantinedUntil > local || abandoned || seenLate;
    if (!reason)
      all.fail(
        "KnownOutcomeNeverQuarantines",
        `quarantined from ${from}, though no outcome is unknown (now ${local.toFixed(1)}, lease until ${(by.held?.deadline ?? -1).toFixed(1)}, confirmed in turn ${by.confirmedInTurn} of ${by.machine.turns}, until ${by.confirmedEnd.toFixed(1)})`,
        by,
      );
  }

  #latched(by: Incarnation, local: number, heldBy: string | undefined): void {
    const { all } = this;
    all.coverage.latches += 1;
    if (!all.strict) return;
    const since = by.foreignSince;
    const lasted = since === null ? -1 : local - since;
    if (lasted < 2 * all.mix.ttlMs - 1) {
      all.fail("NoFalseLatch", `gave up after ${lasted.toFixed(1)} ms of refusals by others`, by);
    }
    if (heldBy === by.holder) all.fail("NoFalseLatch", "gave up against itself", by);
  }

  /** After each refusal: a publisher that others have refused for so long must have given up. */
  refusalDigested(by: Incarnation): void {
    const { all } = this;
    // A turn as long as a TTL may come between a refusal and its digestion.
    if (
      all.mix.longTurn > 0 ||
      by.reacquire !== "latch" ||
      by.seekRefusedSince === null ||
      by.state !== "reacquiring" ||
      !all.strict
    )
      return;
    const lasted = by.refusedAt - by.seekRefusedSince;
    if (lasted > 2.5 * all.mix.ttlMs) {
      all.fail("LatchesInTime", `goes on after ${lasted.toFixed(1)} ms of refusals by others alone`, by);
    }
  }

  streak(by: Incarnation, leaseTimeouts: number): void {
    const { all } = this;
    if (leaseTimeouts < by.leaseTimeouts && all.strict) {
      const heldMs = Math.max(by.heldLongest, by.state === "held" ? by.machine.now() - by.heldSince : 0);
      if (heldMs < 2 * all.mix.ttlMs - 1) {
        all.fail("StreakKept", `the count of timeouts fell after a lease was held for ${heldMs.toFixed(1)} ms`, by);
      }
    }
    by.leaseTimeouts = leaseTimeouts;
    by.heldLongest = 0;
  }

  requestInStretch(by: Incarnation, lease: LeaseSeen): void {
    const { all } = this;
    if (!all.strict) return;
    const local = by.machine.now();
    if (lease.ended || local >= lease.deadline) {
      const past = (local - lease.deadline).toFixed(1);
      all.fail(
        "RequestUnderLostLease",
        `a request of a stretch was sent under lease ${lease.number}, ${past} ms past its deadline`,
        by,
      );
    }
  }
}
