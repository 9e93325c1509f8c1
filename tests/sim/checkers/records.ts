import type { Machine } from "../world/machine.js";
import type { Reacquire } from "../world/mix.js";

/** One run of one holder's process, from start to crash or stop. */
export interface Incarnation {
  readonly id: number;
  readonly holder: string;
  readonly machine: Machine;
  readonly reacquire: Reacquire;
  /** The keeper's state as its change events tell it. */
  state: string;
  heldSince: number;
  /** The longest holding since the count of timeouts was last seen. */
  heldLongest: number;
  /** A caller waits in acquire(), which looks at a pace of its own. */
  acquiring: boolean;
  /** Nothing may be claimed before this local time: an outcome is unknown. */
  quarantinedUntil: number;
  /** True time at which the newest quarantine began. */
  quarantinedTrue: number;
  /** True time at which the quarantined rows have expired for everyone. */
  rowsExpireAt: number;
  /** Local time since which others alone have refused. */
  foreignSince: number | null;
  /** No claim before this local time: a refusal or an unsent claim was seen. */
  pausedUntil: number;
  lastHead: HeadSeen | null;
  /** The lease that was held when the claim that runs began, and whether its deadline passed as it did. */
  renewing: LeaseSeen | null;
  pastDeadline: boolean;
  /** The same since it began to seek the lease by itself, or a head read found nothing live. */
  seekRefusedSince: number | null;
  /** Local time of the newest refusal by others. */
  refusedAt: number;
  /** The next head read belongs to a claim that was not found alone. */
  rereads: ClaimSeen | null;
  rereading: ClaimSeen | null;
  openClaim: ClaimSeen | null;
  /** The turn in which a claim last ended with unknown outcome. A turn may be longer than what it makes the holder wait. */
  unknownInTurn: number;
  /** The lease it holds, by what the table answered. */
  held: LeaseSeen | null;
  /** The turn in which the newest confirmation came, and the local time after which it came too late to hold by. */
  confirmedInTurn: number;
  confirmedEnd: number;
  /** As its status told it last. */
  leaseTimeouts: number;
  /** Rows of its own that came late: ids it claimed under. */
  readonly ownIds: Set<string>;
  /** Local time at which the newest release was asked for. */
  releaseBegan: number;
  /** Fenced statements whose answer is still awaited. */
  fencedInFlight: number;
}

export interface HeadSeen {
  readonly term: bigint;
  readonly leaseIds: readonly string[];
  readonly live: boolean;
}

/** A claim INSERT from its sending to its decision. */
export interface ClaimSeen {
  readonly by: Incarnation;
  readonly lease: LeaseSeen;
  readonly term: bigint;
  readonly sentLocal: number;
  readonly sentTrue: number;
  /** True time of its stamp and of its landing. */
  stampedTrue: number | null;
  landedTrue: number | null;
  /** Its client has given it up, or its outcome is known. */
  over: boolean;
}

/** One lease id. */
export interface LeaseSeen {
  readonly number: number;
  readonly id: string;
  readonly by: Incarnation;
  /** The newest claim that a read-back found alone. */
  confirmed: ClaimSeen | null;
  firstLandedTrue: number;
  /** Local: send of the confirmed claim + TTL − skew − 100. */
  deadline: number;
  /** Latest true time at which anything was told that it is held. */
  toldHeldTrue: number;
  /** Its keeper has left it, and in which of its machine's turns. */
  ended: boolean;
  endedInTurn: number;
  releasedTrue: number | null;
  /** Somebody listens to its loss signal, which has not fired. */
  awaitsSignal: boolean;
}

/** One rule that did not hold. */
export interface Violation {
  readonly checker: string;
  readonly trueMs: number;
  readonly text: string;
}
