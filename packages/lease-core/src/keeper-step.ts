import { instantAfter, type Instant } from "@holdfast/deadline-http";
import type { HeldLease } from "./coordinator.js";
import type { LossReason } from "./errors.js";
import type { KeeperEffect, KeeperEvent, KeeperRules, KeeperState, LeaseLoss, Phase } from "./keeper-state.js";

/** The state after an event, and what is to be done about it. */
export interface Step {
  readonly next: KeeperState;
  readonly effects: readonly KeeperEffect[];
}

type Held = Extract<Phase, { s: "held" }>;

/** Moves the state. Pure: no clock, no randomness, no effects. */
export function step(state: KeeperState, event: KeeperEvent, now: Instant, rules: KeeperRules): Step {
  const aged = letTimeAct(state, event, now, rules);
  const acted = act(aged.next, event, now, rules);
  // Asked at every entry of the keeper, and nearly always nothing has come to pass.
  if (aged.effects.length === 0) return acted;
  return { next: acted.next, effects: [...aged.effects, ...acted.effects] };
}

function letTimeAct(state: KeeperState, event: KeeperEvent, now: Instant, rules: KeeperRules): Step {
  const { phase } = state;
  if (phase.s === "held" && now >= phase.lease.deadline) {
    const [reason, message] = whyOver(state, phase, event, now);
    return quarantine(countTimeout({ ...state, lastError: message }), phase, now, rules, reason, message);
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

/** Why a lease came to its deadline without having been renewed. */
function whyOver(state: KeeperState, held: Held, event: KeeperEvent, now: Instant): [LossReason, string] {
  if (event.e === "slept" && now - event.ms < held.lease.deadline) {
    return ["suspended", `the machine slept for ${Math.round(event.ms)} ms, across the lease deadline`];
  }
  if (isUnconfirmed(state)) {
    return ["unconfirmed", "the clocks had parted without an explanation, and no renewal confirmed the lease in time"];
  }
  if (held.renewing) return ["renewal-timed-out", "the renewal under way was not confirmed by the lease deadline"];
  return ["deadline-passed", "the lease was not renewed by its deadline"];
}

function act(state: KeeperState, event: KeeperEvent, now: Instant, rules: KeeperRules): Step {
  switch (event.e) {
    case "now":
    case "slept":
      return stays(state);
    case "renewing":
      return stays(holds(state, event.leaseId) ? { ...state, phase: { ...state.phase, renewing: true } } : state);
    case "claimed":
      return claimed(state, event.lease, now, rules);
    case "refused":
      return refused(state, event, now, rules);
    case "failed":
      return failed(state, event, now, rules);
    case "quarantine":
      if (!holds(state, event.leaseId)) return stays(state);
      return quarantine(
        // Counted here: whoever made the statement outside a stretch has no other way to say so.
        event.timedOut ? countTimeout({ ...state, lastError: event.message }) : { ...state, lastError: event.message },
        state.phase,
        now,
        rules,
        "outcome-unknown",
        event.message,
      );
    case "stretch-ended":
      return stays(stretchEnded(state, event, now, rules));
    case "parted":
      return stays(parted({ ...state, partings: event.partings }, now));
    case "stand-down":
      return standDown(state);
    case "released": {
      if (!holds(state, event.leaseId)) return stays(state);
      const next: Phase = { s: "released", nextClaimAt: null };
      return lostTo(state, state.phase, next, "released", "the lease was released", "released");
    }
    case "release-failed":
      return stays({ ...state, lastError: event.message });
  }
}

/** The clocks disagree and nobody knows which is right: only the server can say whether the lease still stands. */
const parted = (state: KeeperState, now: Instant): KeeperState =>
  state.phase.s === "held" ? { ...state, phase: { ...state.phase, renewAt: now } } : state;

function standDown(state: KeeperState): Step {
  const { phase } = state;
  if (phase.s === "reacquiring") {
    return moved(state, { s: "released", nextClaimAt: phase.nextClaimAt }, "the lease is not wanted any more");
  }
  return stays(phase.s === "quarantined" ? { ...state, phase: { ...phase, then: "none" } } : state);
}

function claimed(state: KeeperState, lease: HeldLease, now: Instant, rules: KeeperRules): Step {
  // Seen late is late for holding: a success noticed after its own deadline never makes or keeps a lease. Its row stands, though, so it
  // is waited out as any claim of unknown outcome is; a lease that was held until then is over by its own deadline.
  if (now >= lease.deadline) {
    if (state.phase.s === "held") return stays(state);
    const message = "the claim was confirmed, but seen only after the deadline of the lease that it took";
    const late = {
      e: "failed",
      renewalOf: null,
      seeking: state.lost,
      insert: "unknown",
      timedOut: true,
      message,
    } as const;
    return failed(state, late, now, rules);
  }
  // Clocks that parted while the claim was under way: it is unconfirmed from the start, and due.
  const renewAt = lease.partings === state.partings ? instantAfter(lease.sentAt, rules.renewAfterMs) : now;
  const { phase } = state;
  if (phase.s === "held") {
    const newer =
      lease.term > phase.lease.term || (lease.term === phase.lease.term && lease.sentAt > phase.lease.sentAt);
    if (phase.lease.leaseId !== lease.leaseId || !newer) return stays(state);
    return stays({ ...state, phase: { ...phase, lease, renewAt, renewing: false }, renewals: state.renewals + 1 });
  }
  // Only a renewal can be answered here, and its lease was dropped meanwhile: its row stands.
  if (phase.s === "quarantined") return stays(prolonged(state, now, rules));
  if (phase.s === "failed") return stays(state);
  const reacquisitions = state.reacquisitions + (state.lost ? 1 : 0);
  return moved(
    { ...state, lost: false, rival: null, reacquisitions },
    { s: "held", lease, heldSince: now, renewAt, renewing: false },
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
        : { s: "reacquiring", nextClaimAt, refusedSince: event.foreign ? now : null };
    const reason = event.takenOver ? "taken-over" : "refused";
    return lostTo({ ...noted, lost: true }, state.phase, next, reason, event.message);
  }
  if (phase.s === "none" || phase.s === "released") {
    if (!event.seeking || rules.reacquire === "no") return stays({ ...noted, phase: { ...phase, nextClaimAt } });
    return moved(noted, { s: "reacquiring", nextClaimAt, refusedSince: event.foreign ? now : null }, event.message);
  }
  if (phase.s !== "reacquiring") return stays(state);
  // A claim of ours, late or without a trace, was only sent because its head read found no live rival: what refused us before is over.
  const refusedSince = event.foreign ? (phase.refusedSince ?? now) : null;
  if (rules.reacquire === "latch" && refusedSince !== null && now - refusedSince >= rules.latchAfterMs) {
    const rival = event.rival ?? "unknown";
    const why = `held by another publisher (${rival}) for over 2 x lease.ttlMs (${rules.latchAfterMs} ms): this publisher has given up`;
    return moved({ ...noted, lastError: why }, { s: "failed", rival, why }, why);
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
    // Gone already, and the loss was counted: at its deadline, or by a statement of unknown outcome. What this renewal may have written
    // can have been stamped as late as now.
    if (!holds(state, event.renewalOf)) return unknown ? waitedOut(noted, now, rules) : stays(noted);
    if (!unknown) {
      const renewAt = instantAfter(now, rules.tickMs);
      return stays({ ...noted, phase: { ...state.phase, renewAt, renewing: false } });
    }
    const counted = event.timedOut ? countTimeout(noted) : noted;
    const reason = event.timedOut ? "renewal-timed-out" : "outcome-unknown";
    return quarantine(counted, state.phase, now, rules, reason, event.message);
  }
  if (phase.s === "quarantined" && unknown) return stays(prolonged(noted, now, rules));
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

/** A row of ours may have been stamped until now: the quarantine lasts as long as that one may live. */
function prolonged(state: KeeperState, now: Instant, rules: KeeperRules): KeeperState {
  const until = instantAfter(now, rules.ttlMs);
  return state.phase.s === "quarantined" && state.phase.until < until
    ? { ...state, phase: { ...state.phase, until } }
    : state;
}

/** The same when the quarantine of that lease may be over: the event loop can have stood still for longer than it. */
function waitedOut(state: KeeperState, now: Instant, rules: KeeperRules): Step {
  const { phase } = state;
  if (phase.s === "quarantined") return stays(prolonged(state, now, rules));
  if (phase.s === "held" || phase.s === "failed") return stays(state);
  const then = phase.s === "reacquiring" ? "reacquiring" : "none";
  const why = state.lastError ?? "a renewal ended with unknown outcome";
  return moved(state, { s: "quarantined", until: instantAfter(now, rules.ttlMs), then }, why);
}

/**
 * Gives a held lease up while something of ours may still run under it. Safety: the fence names a holder, not an operation, so the same
 * lease must neither be used again nor released (a tombstone would let a successor start beside our statement); the live row keeps
 * rivals out, and a statement that was admitted ends within publishTimeoutMs, which is less than the ttlMs that we keep still for.
 */
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
  return lostTo({ ...state, lost: true }, held, next, reason, message);
}

/** Leaves "held": the one place where a loss is noted and signalled. */
function lostTo(
  state: KeeperState,
  { lease }: Held,
  next: Phase,
  reason: LossReason,
  message: string,
  why = message,
): Step {
  const loss: LeaseLoss = { leaseId: lease.leaseId, term: lease.term.toString(), reason, message };
  const step = moved({ ...state, lastLoss: loss }, next, why);
  return { next: step.next, effects: [{ do: "signal-loss", loss }, ...step.effects] };
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

/** True while a lease is held that was claimed before the clocks last parted: nobody knows whether it still stands. */
export function isUnconfirmed({ phase, partings }: KeeperState): boolean {
  return phase.s === "held" && phase.lease.partings !== partings;
}

const countTimeout = (state: KeeperState): KeeperState => ({
  ...state,
  timeouts: state.timeouts + 1,
  timeoutsEver: state.timeoutsEver + 1,
});

const noEffects: readonly KeeperEffect[] = [];
const stays = (next: KeeperState): Step => ({ next, effects: noEffects });

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
