import type { Instant, Outcome } from "@holdfast/deadline-http";
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
  /** Holder named by the last refusal; null once we hold. */
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
  | { readonly e: "released"; readonly leaseId: string; readonly message: string | null }
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
