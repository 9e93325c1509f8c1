import type { Instant, Outcome } from "@holdfast/deadline-http";
import type { HeldLease } from "./coordinator.js";
import type { LossReason } from "./errors.js";

/**
 * The keeper's state and its only moves: this comment is the specification, `step` the implementation, and the property test holds one
 * against the other. Before each event time acts: a held lease at its deadline is over, a quarantine at its end is over.
 *
 * Invariants, in every state that `step` returns:
 *
 * - I1 `held` implies now < lease.deadline. So nothing that asks is told held past the deadline, however late it is asked.
 * - I2 a held lease moves forward only, in (term, sentAt), under one lease id; a late answer of an older claim changes nothing.
 * - I3 after an outcome that is unknown nothing is claimed or released for ttlMs: our row, or a statement under it, may live that long.
 *   A renewal whose lease is dropped while it is under way counts from when its outcome is known, if it may have been sent; not when its
 *   read-back found others beside it, which is a refusal: then nobody holds that term, and our row only prolongs the contest.
 * - I4 a timeout that costs the lease raises `timeouts` by exactly one, whoever notices it; a refusal or a release by none. It is cleared
 *   at the end of a stretch or claim only, once one lease was held for streakClearsAfterMs; no claim and no renewal clears it.
 * - I5 `held` is left by a loss with one reason, signalled once; nothing else signals.
 * - I6 the clock of refusals (`refusedSince`) runs over refusals by others alone, without a break: a claim of ours that passed its head
 *   read, whatever became of it, found no live rival and so restarts it.
 *
 * Per state: how it is entered; what holds in it; how it is left.
 *
 * - none. Entered: at the beginning; from held by a refusal, and from quarantined at its end, when nothing is sought (reacquire "no",
 *   or `stand-down`). Holds: no lease, no statement of ours in flight; the keeper claims only when asked, and not before `nextClaimAt`.
 *   Left: a confirmed claim (held); a claim of unknown outcome (quarantined); a refused or failed claim that is sought (reacquiring).
 * - held. Entered: by a claim confirmed before its own deadline, from none, reacquiring or released. Holds: I1, I2; `renewAt` is
 *   renewAfterMs after the sending of the claim that stamped the row, a tick from now after a renewal that wrote nothing, and now when the
 *   clocks have parted since that claim (`isUnconfirmed`). Left: at its deadline, or by an outcome that is unknown (quarantined); by a
 *   refused renewal (reacquiring or none: the outcome is known); by release (released).
 * - quarantined. Entered: from held as above; from none, reacquiring or released by a claim of unknown outcome. Holds: I3; no tombstone
 *   was written and none will be; `until` only grows. Left: at `until` and by nothing else (reacquiring or none).
 * - reacquiring. Entered: a lease was lost, or its first claim refused, and it is sought. Holds: the keeper claims by itself when
 *   `nextClaimAt` has come (null: now). Left: a confirmed claim (held); a claim of unknown outcome (quarantined); refusals by others over
 *   latchAfterMs, with reacquire "latch" (failed); `stand-down` (released).
 * - failed. Entered: by the latch alone. Holds: nothing is claimed. Left: never.
 * - released. Entered: from held as the tombstone of a release leaves, from reacquiring by `stand-down`. Holds: as none, and says so; a
 *   claim waits for the lock, which the release has until that tombstone is answered. Left: as none.
 */
export type Phase =
  | { readonly s: "none"; readonly nextClaimAt: Instant | null }
  | {
      readonly s: "held";
      readonly lease: HeldLease;
      readonly heldSince: Instant;
      readonly renewAt: Instant;
      /** A renewal is under way. */
      readonly renewing: boolean;
    }
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
  /** Holder named by the last refusal; null when it named none, and once we hold. */
  readonly rival: string | null;
  /** How often the clocks had parted when we last looked. A lease claimed before the last parting is unconfirmed. */
  readonly partings: number;
  /** The newest loss; kept until the next one. */
  readonly lastLoss: LeaseLoss | null;
}

/** The end of a held lease. JSON-safe. */
export interface LeaseLoss {
  readonly leaseId: string;
  /** The last term that was held, in decimal digits. */
  readonly term: string;
  readonly reason: LossReason;
  readonly message: string;
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
  partings: 0,
  lastLoss: null,
};

export type KeeperEvent =
  /** Time passed. Every public entry sends it first. */
  | { readonly e: "now" }
  /** The machine slept this long since we last looked; fed before anything else is. */
  | { readonly e: "slept"; readonly ms: number }
  /** A renewal of this lease begins. */
  | { readonly e: "renewing"; readonly leaseId: string }
  | { readonly e: "claimed"; readonly lease: HeldLease }
  /** A claim was refused by what stands in the table. `renewalOf` is the lease id that was to be renewed. `waitMs`: tick + random tick. */
  | {
      readonly e: "refused";
      readonly renewalOf: string | null;
      readonly seeking: boolean;
      readonly takenOver: boolean;
      /** Somebody else stands at the head. Not so for our own late claims, nor for a claim that left no row. */
      readonly foreign: boolean;
      /** Null when nobody can be named: our claim left no row, and the head is free. */
      readonly rival: string | null;
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
  /** A statement under the lease ended with unknown outcome; `timedOut`: by a time bound, which then cost the lease. */
  | { readonly e: "quarantine"; readonly leaseId: string; readonly timedOut: boolean; readonly message: string }
  /** A stretch under the lock ended. `timedOut`: text of a bound that ended a request in it. */
  | {
      readonly e: "stretch-ended";
      readonly leaseIdBefore: string | null;
      readonly timeoutsEverBefore: number;
      readonly timedOut: string | null;
    }
  /** The clocks parted without an explanation, for the `partings`th time: the lease is due, and unconfirmed until a later claim. */
  | { readonly e: "parted"; readonly partings: number }
  /** Its tombstone is about to leave. */
  | { readonly e: "released"; readonly leaseId: string }
  /** That tombstone may not have been written: the row expires by itself. */
  | { readonly e: "release-failed"; readonly message: string }
  /** The user wants no lease any more: nothing is sought. */
  | { readonly e: "stand-down" };

/** What the shell has to do. */
export type KeeperEffect =
  | { readonly do: "signal-loss"; readonly loss: LeaseLoss }
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
