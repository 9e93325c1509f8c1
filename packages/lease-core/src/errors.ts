import type { Outcome } from "@holdfast/deadline-http";

/** Stable codes of {@link LeaseError}; docs/errors.md has one line for each. */
export type LeaseErrorCode =
  | "LEASE_HELD"
  | "LEASE_LOST"
  | "LEASE_QUARANTINED"
  | "CLAIM_NOT_RECORDED"
  | "NESTED_LEASE"
  | "LEASE_LATCHED"
  | "CONFIG_INVALID"
  | "SCHEMA_LEASE";

/**
 * Why a held lease ended; in the keeper's `onLost` events, in `status().lastLoss` and in the LEASE_LOST errors that follow.
 *
 * - `renewal-timed-out`: a renewal was under way at the deadline, or ended with unknown outcome by a limit at the server.
 * - `deadline-passed`: no renewal was confirmed by the deadline (a stopped process and a blocked event loop included).
 * - `suspended`: the machine slept across the deadline.
 * - `unconfirmed`: the clocks had parted in a way that nobody can explain, and no renewal confirmed the lease by its deadline.
 * - `taken-over`: the table names another holder. `refused`: it does not show ours, or the term is contested.
 * - `outcome-unknown`: a statement under the lease, or a renewal, may or may not have taken effect.
 * - `released`: given back.
 */
export type LossReason =
  | "renewal-timed-out"
  | "deadline-passed"
  | "suspended"
  | "unconfirmed"
  | "taken-over"
  | "refused"
  | "outcome-unknown"
  | "released";

/** What an error knows beyond its code. All members are optional. */
export interface LeaseErrorDetails {
  /** The error that led to this one. */
  readonly cause?: unknown;
  /** Holder named by the row that refuses us. */
  readonly heldBy?: string;
  /** Milliseconds until the refusing row expires by the server's clock, rounded up. */
  readonly remainingMs?: number;
  /** True when more than one lease id stands at the newest term, so that nobody holds it. */
  readonly contested?: boolean;
  /** True when every claimant at the newest term is one of our own late claims. */
  readonly ownClaims?: boolean;
  /** Why the lease was lost (LEASE_LOST only). */
  readonly reason?: LossReason;
  /** What the server may have done: `not-sent` unless stated. */
  readonly outcome?: Outcome;
}

/**
 * The one error class of this package. Branch on `code`, never on the class or the text: two copies of the package may be loaded.
 * `outcome` says what the server may have done with the statement that failed; `timedOut` whether a time bound ended it.
 */
export class LeaseError extends Error {
  override readonly name = "LeaseError";
  readonly code: LeaseErrorCode;
  readonly timedOut: boolean;
  readonly outcome: Outcome;
  readonly heldBy: string | undefined;
  readonly remainingMs: number | undefined;
  readonly contested: boolean;
  readonly ownClaims: boolean;
  readonly reason: LossReason | undefined;

  constructor(code: LeaseErrorCode, message: string, details: LeaseErrorDetails = {}) {
    super(`[${code}] ${message}`, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.timedOut = details.cause !== undefined && factsOf(details.cause).timedOut;
    this.outcome = details.outcome ?? "not-sent";
    this.heldBy = details.heldBy;
    this.remainingMs = details.remainingMs;
    this.contested = details.contested ?? false;
    this.ownClaims = details.ownClaims ?? false;
    this.reason = details.reason;
  }
}

/** The three fields by which the lease protocol judges a failure, read from any error. */
export interface FailureFacts {
  readonly code: string | undefined;
  readonly timedOut: boolean;
  readonly outcome: Outcome;
  readonly serverCode: number | undefined;
  readonly message: string;
}

/**
 * Reads `code`, `timedOut`, `outcome` and `serverCode` from a foreign error by their names, since the class may come from another copy
 * of deadline-http. Something that does not say what the server did counts as `unknown`: the side that costs a wait, not safety.
 */
export function factsOf(error: unknown): FailureFacts {
  const from = (typeof error === "object" && error !== null ? error : {}) as Record<string, unknown>;
  const outcome = from["outcome"];
  return {
    code: typeof from["code"] === "string" ? from["code"] : undefined,
    timedOut: from["timedOut"] === true,
    outcome: outcome === "not-sent" || outcome === "refused" ? outcome : "unknown",
    serverCode: typeof from["serverCode"] === "number" ? from["serverCode"] : undefined,
    message: error instanceof Error ? error.message : String(error),
  };
}
