import { instantAfter, type Instant, type Outcome } from "@holdfast/deadline-http";
import type { HeldLease } from "./coordinator.js";
import type { LossReason } from "./errors.js";

/**
 * The keeper's state and its only moves. Invariants, for all states:
 *
 * - I1 `held` implies now < lease.deadline in every state that `step` returns: each event first lets time act.
 * - I2 a held lease only moves forward in (term, sentAt); a late answer of an older claim changes nothing.
 * - I3 after an outcome that is unknown, nothing is claimed for ttlMs (our row, or a statement under it, may live that long).
 * - I4 a timeout that costs the lease raises `timeouts` by exactly one.
 *
 * Per state: how entered; what holds; how left.
 *
 * - none: at the beginning, after a refused or failed first claim, or (without reacquiring) when a lost lease is over. Nothing is
 *   held, and the keeper does not claim by itself. Left by a claim.
 * - held: by a confirmed claim. Renewed when due. Left at its deadline (quarantined: our statements may be in flight), by a claim of
 *   unknown outcome (quarantined), by a refusal (none or reacquiring: the outcome is known), by release.
 * - quarantined: no tombstone was written and none will be; no claim is made until `until`. Then reacquiring or none.
 * - reacquiring: the keeper claims by itself whenever `nextClaimAt` has come. Left by a claim, by quarantine, by the latch.
 * - failed: refused by others for latchAfterMs (publisher role only). Final.
 * - released: by release. As none, and says so.
 */
export type Phase =
  | { readonly s: "none"; readonly nextClaimAt: Instant | null }
  | { readonly s: "held"; readonly lease: HeldLease; readonly heldSince: Instant; readonly renewAt: Instant }
  | { readonly s: "quarantined"; readonly until: Instant; readonly then: "none" | "reacquiring" }
  | { readonly s: "reacquiring"; readonly nextClaimAt: Instant | null; readonly refusedSince: Instant | null }
  | { readonly s: "failed"; readonly rival: string; readonly why: string }
  | { readonly s: "released"; readonly nextClaimAt: Instant | null };

export interface KeeperState {
  readonly phase: Phase;
  /** Timeouts that cost the lease, one after another: cleared when a lease was held for streakClearsAfterMs. */
  readonly timeouts: number;
  /** The same, never cleared: lets a stretch see whether a loss inside it was counted. */
  readonly timeoutsEver: number;
  /** A lease was lost and none was held since. */
  readonly lost: boolean;
  readonly renewals: number;
  readonly reacquisitions: number;
  readonly lastError: string | null;
  /** Holder named by the last refusal; null once we hold. */
  readonly rival: string | null;
}

export const initialState: KeeperState = {
  phase: { s: "none", nextClaimAt: null },
  timeouts: 0,
  timeoutsEver: 0,
  lost: false,
  renewals: 0,
  reacquisitions: 0,
  lastError: null,
  rival: null,
};

export type KeeperEvent =
  /** Time passed. Every public entry sends it first. */
  | { readonly e: "now" }
  | { readonly e: "claimed"; readonly lease: HeldLease }
  /** A claim was refused by what stands in the table. `renewalOf` is the lease id that was to be renewed. `waitMs`: tick + random tick. */
  | {
      readonly e: "refused";
      readonly renewalOf: string | null;
      readonly seeking: boolean;
      readonly takenOver: boolean;
      readonly ownClaims: boolean;
      readonly rival: string;
      readonly message: string;
      readonly waitMs: number;
    }
  /** A claim failed; `insert` says what became of its INSERT. */
  | {
      readonly e: "failed";
      readonly renewalOf: string | null;
      readonly seeking: boolean;
      readonly insert: Outcome;
      readonly timedOut: boolean;
      readonly message: string;
    }
  /** A statement under the lease ended with unknown outcome. */
  | { readonly e: "quarantine"; readonly leaseId: string; readonly message: string }
  /** A stretch under the lock ended. `timedOut`: text of a bound that ended a request in it. */
  | {
      readonly e: "stretch-ended";
      readonly leaseIdBefore: string | null;
      readonly timeoutsEverBefore: number;
      readonly timedOut: string | null;
    }
  /** The clocks parted without an explanation: the lease is due. */
  | { readonly e: "parted" }
  | { readonly e: "released"; readonly leaseId: string; readonly message: string | null }
  /** The user wants no lease any more: nothing is sought. */
  | { readonly e: "stand-down" };

/** What the shell has to do. */
export type KeeperEffect =
  | { readonly do: "signal-loss"; readonly leaseId: string; readonly reason: LossReason; readonly message: string }
  | { readonly do: "tell"; readonly from: Phase["s"]; readonly to: Phase["s"]; readonly why: string };

/** The numbers that `step` needs, and whether a lost lease is sought again. */
export interface KeeperRules {
  readonly ttlMs: number;
  readonly tickMs: number;
  readonly renewAfterMs: number;
  readonly latchAfterMs: number;
  readonly streakClearsAfterMs: number;
  readonly reacquire: "latch" | "keep-trying" | "no";
}

export interface Step {
  readonly next: KeeperState;
  readonly effects: readonly KeeperEffect[];
}

type Held = Extract<Phase, { s: "held" }>;

/** Moves the state. Pure: no clock, no randomness, no effects. */
export function step(state: KeeperState, event: KeeperEvent, now: Instant, rules: KeeperRules): Step {
  const aged = letTimeAct(state, now, rules);
  const acted = act(aged.next, event, now, rules);
  return { next: acted.next, effects: [...aged.effects, ...acted.effects] };
}

function letTimeAct(state: KeeperState, now: Instant, rules: KeeperRules): Step {
  const { phase } = state;
  if (phase.s === "held" && now >= phase.lease.deadline) {
    const message = `the lease was not renewed by its deadline`;
    return quarantine(countTimeout({ ...state, lastError: message }), phase, now, rules, "deadline-passed", message);
  }
  if (phase.s === "quarantined" && now >= phase.until) {
    const next: Phase =
      phase.then === "reacquiring"
        ? { s: "reacquiring", nextClaimAt: null, refusedSince: null }
        : { s: "none", nextClaimAt: null };
    return moved(state, next, "the quarantine is over");
  }
  return stays(state);
}

function act(state: KeeperState, event: KeeperEvent, now: Instant, rules: KeeperRules): Step {
  switch (event.e) {
    case "now":
      return stays(state);
    case "claimed":
      return claimed(state, event.lease, now, rules);
    case "refused":
      return refused(state, event, now, rules);
    case "failed":
      return failed(state, event, now, rules);
    case "quarantine":
      if (!holds(state, event.leaseId)) return stays(state);
      return quarantine(
        { ...state, lastError: event.message },
        state.phase,
        now,
        rules,
        "outcome-unknown",
        event.message,
      );
    case "stretch-ended":
      return stays(stretchEnded(state, event, now, rules));
    case "parted":
      return stays(state.phase.s === "held" ? { ...state, phase: { ...state.phase, renewAt: now } } : state);
    case "stand-down":
      return standDown(state);
    case "released": {
      if (!holds(state, event.leaseId)) return stays(state);
      const lastError = event.message ?? state.lastError;
      const { effects, next } = moved(
        { ...state, lastError },
        { s: "released", nextClaimAt: null },
        event.message ?? "released",
      );
      return { next, effects: [loss(state.phase.lease.leaseId, "released", "the lease was released"), ...effects] };
    }
  }
}

function standDown(state: KeeperState): Step {
  const { phase } = state;
  if (phase.s === "reacquiring") {
    return moved(state, { s: "released", nextClaimAt: phase.nextClaimAt }, "the lease is not wanted any more");
  }
  return stays(phase.s === "quarantined" ? { ...state, phase: { ...phase, then: "none" } } : state);
}

function claimed(state: KeeperState, lease: HeldLease, now: Instant, rules: KeeperRules): Step {
  // Seen late is late for holding: a success noticed after its own deadline never makes or keeps a lease.
  if (now >= lease.deadline) return stays(state);
  const renewAt = instantAfter(lease.sentAt, rules.renewAfterMs);
  const { phase } = state;
  if (phase.s === "held") {
    const newer =
      lease.term > phase.lease.term || (lease.term === phase.lease.term && lease.sentAt > phase.lease.sentAt);
    if (phase.lease.leaseId !== lease.leaseId || !newer) return stays(state);
    return stays({ ...state, phase: { ...phase, lease, renewAt }, renewals: state.renewals + 1 });
  }
  if (phase.s === "quarantined" || phase.s === "failed") return stays(state);
  const reacquisitions = state.reacquisitions + (state.lost ? 1 : 0);
  return moved(
    { ...state, lost: false, rival: null, reacquisitions },
    { s: "held", lease, heldSince: now, renewAt },
    `claimed at term ${lease.term}`,
  );
}

function refused(
  state: KeeperState,
  event: Extract<KeeperEvent, { e: "refused" }>,
  now: Instant,
  rules: KeeperRules,
): Step {
  const { phase } = state;
  const nextClaimAt = instantAfter(now, event.waitMs);
  const noted: KeeperState = { ...state, lastError: event.message, rival: event.rival };
  if (event.renewalOf !== null) {
    if (!holds(state, event.renewalOf)) return stays(state);
    const next: Phase =
      rules.reacquire === "no"
        ? { s: "none", nextClaimAt }
        : { s: "reacquiring", nextClaimAt, refusedSince: event.ownClaims ? null : now };
    const { next: after, effects } = moved({ ...noted, lost: true }, next, event.message);
    const reason = event.takenOver ? "taken-over" : "refused";
    return { next: after, effects: [loss(event.renewalOf, reason, event.message), ...effects] };
  }
  if (phase.s === "none" || phase.s === "released") {
    if (!event.seeking || rules.reacquire === "no") return stays({ ...noted, phase: { ...phase, nextClaimAt } });
    return moved(noted, { s: "reacquiring", nextClaimAt, refusedSince: event.ownClaims ? null : now }, event.message);
  }
  if (phase.s !== "reacquiring") return stays(state);
  // Our own late claim was only sent because its head read found no live rival: whatever refused us before that is over.
  const refusedSince = event.ownClaims ? null : (phase.refusedSince ?? now);
  if (rules.reacquire === "latch" && refusedSince !== null && now - refusedSince >= rules.latchAfterMs) {
    const why = `held by another publisher (${event.rival}) for over 2 x lease.ttlMs (${rules.latchAfterMs} ms): this publisher has given up`;
    return moved({ ...noted, lastError: why }, { s: "failed", rival: event.rival, why }, why);
  }
  return stays({ ...noted, phase: { s: "reacquiring", nextClaimAt, refusedSince } });
}

function failed(
  state: KeeperState,
  event: Extract<KeeperEvent, { e: "failed" }>,
  now: Instant,
  rules: KeeperRules,
): Step {
  const { phase } = state;
  const noted: KeeperState = { ...state, lastError: event.message };
  const unknown = event.insert === "unknown";
  if (event.renewalOf !== null) {
    // Gone already: at its deadline, where the loss was counted.
    if (!holds(state, event.renewalOf)) return stays(noted);
    if (!unknown) return stays({ ...noted, phase: { ...state.phase, renewAt: instantAfter(now, rules.tickMs) } });
    const counted = event.timedOut ? countTimeout(noted) : noted;
    const reason = event.timedOut ? "renewal-timed-out" : "outcome-unknown";
    return quarantine(counted, state.phase, now, rules, reason, event.message);
  }
  if (phase.s === "held" || phase.s === "quarantined" || phase.s === "failed") return stays(noted);
  const counted = event.timedOut ? countTimeout(noted) : noted;
  const seek = rules.reacquire !== "no" && (phase.s === "reacquiring" || event.seeking);
  if (unknown) {
    return moved(
      counted,
      { s: "quarantined", until: instantAfter(now, rules.ttlMs), then: seek ? "reacquiring" : "none" },
      event.message,
    );
  }
  const nextClaimAt = instantAfter(now, rules.tickMs);
  if (phase.s === "reacquiring") return stays({ ...counted, phase: { ...phase, nextClaimAt } });
  if (seek) return moved(counted, { s: "reacquiring", nextClaimAt, refusedSince: null }, event.message);
  return stays({ ...counted, phase: { ...phase, nextClaimAt } });
}

function quarantine(
  state: KeeperState,
  held: Held,
  now: Instant,
  rules: KeeperRules,
  reason: LossReason,
  message: string,
): Step {
  const next: Phase = {
    s: "quarantined",
    until: instantAfter(now, rules.ttlMs),
    then: rules.reacquire === "no" ? "none" : "reacquiring",
  };
  const step = moved({ ...state, lost: true }, next, message);
  return { next: step.next, effects: [loss(held.lease.leaseId, reason, message), ...step.effects] };
}

function stretchEnded(
  state: KeeperState,
  event: Extract<KeeperEvent, { e: "stretch-ended" }>,
  now: Instant,
  rules: KeeperRules,
): KeeperState {
  const { phase } = state;
  if (event.leaseIdBefore !== null && !holds(state, event.leaseIdBefore)) {
    const counted = state.timeoutsEver !== event.timeoutsEverBefore;
    return event.timedOut !== null && !counted ? countTimeout({ ...state, lastError: event.timedOut }) : state;
  }
  const healthy = phase.s === "held" && now - phase.heldSince >= rules.streakClearsAfterMs;
  return healthy && state.timeouts > 0 ? { ...state, timeouts: 0 } : state;
}

/** True when this very lease is held. */
export function holds(state: KeeperState, leaseId: string): state is KeeperState & { readonly phase: Held } {
  return state.phase.s === "held" && state.phase.lease.leaseId === leaseId;
}

const countTimeout = (state: KeeperState): KeeperState => ({
  ...state,
  timeouts: state.timeouts + 1,
  timeoutsEver: state.timeoutsEver + 1,
});

const loss = (leaseId: string, reason: LossReason, message: string): KeeperEffect => ({
  do: "signal-loss",
  leaseId,
  reason,
  message,
});

const stays = (next: KeeperState): Step => ({ next, effects: [] });

function moved(state: KeeperState, phase: Phase, why: string): Step {
  const tell: KeeperEffect = { do: "tell", from: state.phase.s, to: phase.s, why };
  return { next: { ...state, phase }, effects: [tell] };
}

/** When the keeper has to do something by itself, and what. `null`: only when asked. */
export function nextAct(state: KeeperState): { readonly act: "renew" | "claim"; readonly at: Instant | null } | null {
  const { phase } = state;
  if (phase.s === "held") return { act: "renew", at: phase.renewAt };
  if (phase.s === "reacquiring") return { act: "claim", at: phase.nextClaimAt };
  return null;
}
