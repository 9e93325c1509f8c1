import type { ClaimRow, Head, HeadLease } from "@holdfast/lease-core";
import type { Checkers } from "./checkers.js";
import type { ClaimSeen, Incarnation, LeaseSeen } from "./records.js";

/**
 * The lease statements of each holder, against the protocol.
 *
 * - QuarantineOutlastsItsRow: after an unknown outcome nothing is claimed for a TTL, and not before the rows have expired.
 * - ClaimFromHead: a claim goes to head + 1, over nothing that is live, and a renewal only from a head that is its lease alone.
 * - FreshLeaseId: a lease that was lost is not claimed again.
 * - SoleGrantPerTerm, TermsGrow: one lease holds a term; each claim of a lease, and each grant, has a greater term than the last.
 * - TombstoneAtOwnTerm: a release stands at a term of its own lease, and never after an unknown outcome.
 * - Pace: after a refusal or an unsent claim the next comes a tick later at the earliest.
 * - BoundsOfLeaseStatements: none has more time than the protocol gives it, and no caller takes any away.
 */
export class Claims {
  readonly #grants = new Map<bigint, LeaseSeen>();
  #newestGrant = 0n;

  constructor(readonly all: Checkers) {}

  #holds(by: Incarnation): LeaseSeen | null {
    const { held } = by;
    return held && !held.ended && by.machine.now() < held.deadline ? held : null;
  }

  headSent(by: Incarnation, leftMs: number, attempt: number): void {
    const { all } = this;
    if (!all.strict) return;
    if (by.rereads !== null) [by.rereading, by.rereads] = [by.rereads, null];
    if (by.rereading !== null) return;
    // A repeated attempt belongs to a claim that began before.
    if (attempt > 1) return;
    const local = by.machine.now();
    const turnBegan = by.machine.localAt(all.world.queue.now);
    const { held } = by;
    const heldAtFirst = held !== null && (!held.ended || held.endedInTurn === by.machine.turns);
    const over = by.state === "held" || by.state === "quarantined";
    by.pastDeadline = over && heldAtFirst && turnBegan < held.deadline && local >= held.deadline;
    by.renewing = held !== null && (!held.ended || by.pastDeadline) ? held : null;
    // Its deadline passed in this very turn, after it was asked: sent all the same, since the table's answer decides.
    if (by.pastDeadline) return;
    const after = by.openClaim;
    if (after !== null) this.unknownOutcome(by, after);
    if (held && !held.ended && local >= held.deadline) {
      by.quarantinedUntil = Math.max(by.quarantinedUntil, held.deadline + all.mix.ttlMs);
    }
    if (local < by.quarantinedUntil - 1) {
      const wait = (by.quarantinedUntil - local).toFixed(1);
      all.fail("QuarantineOutlastsItsRow", `a claim began ${wait} ms before the end of a quarantine`, by);
    }
    const trueNow = by.machine.trueNow();
    if (trueNow < by.rowsExpireAt - 1) {
      const wait = (by.rowsExpireAt - trueNow).toFixed(1);
      all.fail("QuarantineOutlastsItsRow", `a claim began ${wait} ms before the quarantined row had expired`, by);
    }
    const holding = this.#holds(by);
    this.#bounds(by, holding, leftMs, "head read");
    if (holding === null && !by.acquiring && local < by.pausedUntil - 0.5) {
      all.fail(
        "Pace",
        `a claim began ${(by.pausedUntil - local).toFixed(1)} ms too early after a refusal or an unsent claim`,
        by,
      );
    }
  }

  #bounds(by: Incarnation, holding: LeaseSeen | null, leftMs: number, what: string): void {
    const { all } = this;
    const { requestMs, ttlMs } = all.mix;
    const bound = holding
      ? Math.min(requestMs, holding.deadline - by.machine.now())
      : Math.min(requestMs, Math.floor(ttlMs / 3));
    if (leftMs > bound + 1 || leftMs < Math.floor(bound) - 2 - by.machine.inTurnMs) {
      all.fail(
        "BoundsOfLeaseStatements",
        `a ${what} had ${leftMs} ms where the protocol gives ${bound.toFixed(1)}`,
        by,
      );
    }
  }

  headAnswered(by: Incarnation, head: Head): void {
    by.rereading = null;
    const local = by.machine.now();
    const live = head.leases.some((lease) => lease.expiresAtNs > head.nowNs);
    by.lastHead = { term: head.term, leaseIds: head.leases.map(({ leaseId }) => leaseId), live };
    const held = by.held;
    const sole = head.leases.length === 1 && held !== null && !held.ended && head.leases[0]!.leaseId === held.id;
    if (!live) by.seekRefusedSince = null;
    if (sole || !live) return;
    const foreign = head.leases.some(({ leaseId }) => !by.ownIds.has(leaseId));
    by.foreignSince = foreign ? (by.foreignSince ?? local) : null;
    if (foreign) by.refusedAt = local;
    if (foreign && by.state === "reacquiring") by.seekRefusedSince ??= local;
    else by.seekRefusedSince = null;
    if (by.state !== "quarantined" && by.renewing?.ended !== true) by.pausedUntil = local + this.all.tickMs;
  }

  headFailed(by: Incarnation): void {
    // A claim that was not found alone stays of unknown outcome when the head cannot say who won.
    const claim = by.rereading ?? by.rereads;
    [by.rereading, by.rereads] = [null, null];
    if (claim !== null) this.unknownOutcome(by, claim);
    this.#pauses(by);
  }

  /** A claim that is over leads to a pause, unless a quarantine, or a lease, is there. */
  #pauses(by: Incarnation): void {
    const holds = by.held !== null && !by.held.ended;
    // A renewal whose lease ended meanwhile changes nothing any more.
    if (by.renewing?.ended === true) return;
    if (!holds && by.state !== "quarantined") by.pausedUntil = by.machine.now() + this.all.tickMs;
  }

  claimSent(by: Incarnation, row: ClaimRow, leftMs: number, attempt: number): ClaimSeen {
    const { all } = this;
    const lease = all.lease(row.leaseId, by);
    const { machine } = by;
    // A repeated attempt: the holder counts from the first.
    const first = attempt > 1 && by.openClaim?.lease === lease ? by.openClaim : null;
    const claim: ClaimSeen = {
      by,
      lease,
      term: row.term,
      sentLocal: first?.sentLocal ?? machine.now(),
      sentTrue: machine.trueNow(),
      stampedTrue: null,
      landedTrue: null,
      over: false,
    };
    by.openClaim = claim;
    by.ownIds.add(row.leaseId);
    if (!all.strict) return claim;
    // The head may still be read in the turn in which the deadline passes, or for a lease that is dropped then: nothing is written after.
    if (by.pastDeadline) {
      all.fail("QuarantineOutlastsItsRow", "a claim was sent after the deadline that passed as it began", by);
    }
    this.#claimIsRight(by, lease, row.term, leftMs, attempt);
    return claim;
  }

  #claimIsRight(by: Incarnation, lease: LeaseSeen, term: bigint, leftMs: number, attempt: number): void {
    const { all } = this;
    const { lastHead } = by;
    if (lastHead === null || term !== lastHead.term + 1n) {
      all.fail(
        "ClaimFromHead",
        `a claim went to term ${term}, its head read had shown ${lastHead?.term ?? "nothing"}`,
        by,
      );
      return;
    }
    const alone = lastHead.leaseIds.length === 1 && lastHead.leaseIds[0] === lease.id;
    if (lastHead.live && !alone) all.fail("ClaimFromHead", `a claim went over a live head, term ${lastHead.term}`, by);
    if (lease.confirmed !== null && !alone) {
      all.fail("ClaimFromHead", `lease ${lease.number} was renewed though others have stood at the head since`, by);
    }
    if (lease.ended) all.fail("FreshLeaseId", `lease ${lease.number} is claimed again after its loss`, by);
    if (lease.confirmed !== null && term <= lease.confirmed.term) {
      all.fail("TermsGrow", `lease ${lease.number} claims term ${term} after ${lease.confirmed.term}`, by);
    }
    const holding = this.#holds(by);
    const own = Math.min(all.holdMs, all.mix.requestMs);
    const most = Math.min(own, holding ? holding.deadline - by.machine.now() : Math.floor(all.mix.ttlMs / 3));
    if (leftMs > most + 1) {
      all.fail(
        "BoundsOfLeaseStatements",
        `a claim INSERT had ${leftMs} ms where the protocol gives ${most.toFixed(1)}`,
        by,
      );
    }
    if (attempt === 1 && leftMs < Math.floor(most) - 2 - by.machine.inTurnMs) {
      all.fail("BoundsOfLeaseStatements", `a claim INSERT had ${leftMs} ms only, of ${most.toFixed(1)}`, by);
    }
  }

  claimLanded(claim: ClaimSeen): void {
    const { all } = this;
    const now = all.world.queue.now;
    claim.landedTrue ??= now;
    const { lease, by } = claim;
    if (lease.firstLandedTrue < 0) lease.firstLandedTrue = now;
    const ids = new Set(all.world.catalog.term(claim.term).map(({ leaseId }) => leaseId));
    if (ids.size === 2 && all.contested(claim.term)) all.coverage.contestedTerms += 1;
    if (claim.over || by.state === "quarantined") {
      all.coverage.claimsLandedInQuarantine += 1;
      if (all.someoneElseHolds(by)) all.coverage.claimsLandedWhileRivalHolds += 1;
    }
  }

  /** A claim INSERT, or the read-back after it, failed. */
  claimFailed(by: Incarnation, claim: ClaimSeen, outcome: string): void {
    if (outcome !== "unknown") {
      by.openClaim = null;
      claim.over = true;
      this.all.coverage.unsentClaims += 1;
      this.#pauses(by);
      return;
    }
    this.unknownOutcome(by, claim);
  }

  unknownOutcome(by: Incarnation, claim: ClaimSeen): void {
    const { all } = this;
    const { ttlMs, rateError } = all.mix;
    claim.over = true;
    by.openClaim = null;
    by.unknownInTurn = by.machine.turns;
    by.foreignSince = null;
    by.seekRefusedSince = null;
    by.quarantinedUntil = Math.max(by.quarantinedUntil, by.machine.now() + ttlMs);
    if (claim.stampedTrue === null) return;
    const slack = rateError * ttlMs * 2 + all.mix.serverSkewMs;
    by.rowsExpireAt = Math.max(by.rowsExpireAt, claim.stampedTrue + ttlMs - slack);
  }

  termSent(by: Incarnation, claim: ClaimSeen, leftMs: number): void {
    const most = claim.sentLocal + this.all.holdMs - by.machine.now();
    if (this.all.strict && leftMs > most + 1) {
      const text = `a read-back had ${leftMs} ms, the lease it confirms has ${most.toFixed(1)}`;
      this.all.fail("BoundsOfLeaseStatements", text, by);
    }
  }

  termAnswered(by: Incarnation, claim: ClaimSeen, leases: readonly HeadLease[]): void {
    const { all } = this;
    claim.over = true;
    const alone = leases.length === 1 && leases[0]!.leaseId === claim.lease.id;
    const local = by.machine.now();
    if (!alone) {
      by.rereads = claim;
      by.openClaim = null;
      by.foreignSince ??= local;
      by.pausedUntil = local + all.tickMs;
      return;
    }
    const deadline = claim.sentLocal + all.holdMs;
    // A renewal also has to be seen by the deadline of the lease that it renews.
    const end = claim.lease.confirmed === null ? deadline : Math.min(deadline, claim.lease.deadline);
    // Seen late, it is a claim of unknown outcome like any other.
    if (local >= end) {
      this.unknownOutcome(by, claim);
      return;
    }
    by.confirmedInTurn = by.machine.turns;
    by.confirmedEnd = end;
    by.openClaim = null;
    by.foreignSince = null;
    by.seekRefusedSince = null;
    this.#granted(by, claim, deadline);
  }

  #granted(by: Incarnation, claim: ClaimSeen, deadline: number): void {
    const { all } = this;
    const { lease, term } = claim;
    const other = this.#grants.get(term);
    if (other !== undefined && other !== lease && all.strict) {
      all.fail("SoleGrantPerTerm", `term ${term} was granted to leases ${other.number} and ${lease.number}`, by);
    }
    if (term <= this.#newestGrant && all.strict) {
      all.fail("TermsGrow", `term ${term} was granted after term ${this.#newestGrant}`, by);
    }
    this.#grants.set(term, lease);
    if (term > this.#newestGrant) this.#newestGrant = term;
    all.coverage.terms += 1;
    const first = lease.confirmed === null;
    lease.confirmed = claim;
    lease.deadline = deadline;
    by.pausedUntil = -Infinity;
    by.held = lease;
    all.holding.granted(lease, first);
  }

  tombstoneSent(by: Incarnation, lease: LeaseSeen, term: bigint): void {
    const { all } = this;
    if (!all.strict) return;
    if (lease.confirmed?.term !== term) {
      all.fail(
        "TombstoneAtOwnTerm",
        `a tombstone went to term ${term}, lease ${lease.number} holds ${lease.confirmed?.term ?? 0n}`,
        by,
      );
    }
    if (by.machine.now() < by.quarantinedUntil - 1 || by.openClaim !== null) {
      all.fail("TombstoneAtOwnTerm", `lease ${lease.number} was released though an outcome under it is unknown`, by);
    }
  }
}
