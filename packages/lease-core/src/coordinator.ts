import {
  DeadlineExceededError,
  instantAfter,
  within,
  withDeadline,
  type Clock,
  type Instant,
  type Outcome,
} from "@holdfast/deadline-http";
import {
  deadlineMarginMs,
  holderName,
  leaseDeadlineName,
  leaseKnobs,
  leaseName,
  requireLeaseConfig,
  type LeaseConfig,
} from "./config.js";
import { factsOf, LeaseError } from "./errors.js";
import type { Head, HeadLease, LeaseTable } from "./lease-table.js";
import { OwnClaims } from "./own-claims.js";
import { randomUuid, type Random } from "./prng.js";

/** A lease as its holder knows it. */
export interface HeldLease {
  readonly leaseId: string;
  readonly term: bigint;
  /** Taken just before the claim INSERT that stamped the row was handed over. */
  readonly sentAt: Instant;
  /** sentAt + ttlMs − clockSkewMs − 100: from here on this process must not act as the holder. */
  readonly deadline: Instant;
  /** `clock.partings()` at sentAt: when it has grown since, the lease is due. */
  readonly partings: number;
}

/** What became of a claim (or renewal, which is a claim of the same lease id). Refusals are answers, failures are faults. */
export type ClaimResult =
  | { readonly result: "held"; readonly lease: HeldLease }
  | { readonly result: "refused"; readonly error: LeaseError; readonly ownClaims: boolean; readonly contested: boolean }
  | {
      readonly result: "failed";
      readonly error: unknown;
      readonly timedOut: boolean;
      /** What became of the claim's INSERT: `not-sent` and `refused` wrote nothing, `unknown` may have landed or may yet. */
      readonly insert: Outcome;
    };

export interface LeaseCoordinatorOptions {
  readonly table: LeaseTable;
  readonly name: string;
  readonly holder: string;
  readonly config: LeaseConfig;
  readonly clock: Clock;
  readonly random: Random;
}

type Refused = Extract<ClaimResult, { result: "refused" }>;
const refusal = (error: LeaseError, ownClaims: boolean, contested: boolean): Refused => ({
  result: "refused",
  error,
  ownClaims,
  contested,
});

const always = (): boolean => true;
const never = Infinity as Instant;

/** How a bound is told when it ends a statement. */
interface BoundNames {
  readonly name: string;
  readonly knobs: Readonly<Record<string, number>>;
  readonly clock: Clock;
}

/** Runs one statement under its bound. */
type Run = <T>(statement: () => Promise<T>) => Promise<T>;

/**
 * Speaks the lease protocol for one name and one holder: claim, renew, release, fence. It keeps no lease of its own; the caller says
 * which one it holds. It never retries and never waits; one call at a time (LeaseKeeper sees to that with its lock).
 *
 * Safety of a grant: the INSERT at head + 1 is unconditional, so two claimants may both land at one term; each then reads that term and
 * is granted only when it stands alone. Reads see all inserts answered before, so of two landed claims at most the first to read can
 * stand alone, and the other sees both and gives up.
 */
export class LeaseCoordinator {
  readonly #o: LeaseCoordinatorOptions;
  readonly #own = new OwnClaims();
  readonly #bounds: ReturnType<typeof boundNames>;
  #newestTermSeen = 0n;

  /** @throws LeaseError CONFIG_INVALID for a name, holder or configuration that breaks a rule. Sends nothing. */
  constructor(options: LeaseCoordinatorOptions) {
    leaseName(options.name);
    holderName("holder", options.holder);
    requireLeaseConfig(options.config);
    this.#o = options;
    this.#bounds = boundNames(options.config, options.clock);
  }

  /**
   * Claims the lease under a fresh id, or renews `held`. Never rejects. Without a lease, or under one past its deadline, each request has
   * the claim bound; under a live lease all of them end at its deadline; from its INSERT on the claim's own deadline binds too. Sending
   * under a lease that is past its deadline is right: the protocol's reads decide such a claim, where refusing to send would not.
   *
   * `wanted` is asked before each attempt of the INSERT: once it says no, that is not sent (failed, `not-sent`). For who may drop `held`
   * while its renewal is under way: a row written after that would keep everybody out, its own holder included, for another TTL.
   */
  async claim(held: HeldLease | null, o: { readonly wanted?: () => boolean } = {}): Promise<ClaimResult> {
    const { clock } = this.#o;
    const live = held !== null && clock.recheck() < held.deadline;
    const leaseId = held?.leaseId ?? randomUuid(this.#o.random);
    const run = live ? this.#underLease(held.deadline) : this.#underClaimBound();
    const fate: { insert: Outcome } = { insert: "not-sent" };
    try {
      const head = this.#seen(await run(() => this.#o.table.readHead(this.#o.name)));
      const refused = this.#refusedUnlessFree(head, leaseId, held !== null);
      if (refused !== null) return refused;
      const term = head.term + 1n;
      const partings = clock.partings();
      const sentAt = clock.recheck();
      const lease: HeldLease = {
        leaseId,
        term,
        sentAt,
        deadline: instantAfter(sentAt, this.#o.config.holdMs),
        partings,
      };
      const runOwn: Run = (statement) => this.#untilOwnDeadline(lease, () => run(statement));
      const wanted = o.wanted ?? always;
      await this.#insert(lease, (statement) => this.#whileWanted(wanted, () => runOwn(statement)), fate);
      const lost = await this.#confirm(lease, runOwn);
      if (lost !== null) return lost;
      const end = live && held.deadline < lease.deadline ? held.deadline : lease.deadline;
      if (clock.recheck() >= end) throw this.#seenTooLate();
      return { result: "held", lease };
    } catch (error) {
      return { result: "failed", error, timedOut: factsOf(error).timedOut, insert: fate.insert };
    }
  }

  /**
   * Ends `held` with a tombstone at its own term, under its deadline. Rejects with what the table answered. Safety: at its own term it can
   * end no other holding, however late it lands; at head + 1 it would contest, or end, the successor's.
   */
  async release(held: HeldLease): Promise<void> {
    const { name, holder, table } = this.#o;
    await this.#underLease(held.deadline)(() =>
      table.insertTombstone({ name, holder, term: held.term, leaseId: held.leaseId }),
    );
  }

  async #insert(lease: HeldLease, run: Run, fate: { insert: Outcome }): Promise<void> {
    const { table, name, holder, config } = this.#o;
    const unsent = this.#own.note(lease.leaseId);
    // Also once answered: until the read-back stands alone, a failure of ours leaves a row behind that may be live.
    fate.insert = "unknown";
    try {
      const row = { name, holder, term: lease.term, leaseId: lease.leaseId, ttlMs: config.ttlMs };
      await run(() => table.insertClaim(row));
    } catch (error) {
      fate.insert = factsOf(error).outcome;
      if (fate.insert !== "unknown") unsent();
      throw error;
    }
  }

  /** Null when the claim stands alone. */
  async #confirm(lease: HeldLease, run: Run): Promise<Refused | null> {
    const { table, name } = this.#o;
    const claimants = await run(() => table.readTerm(name, lease.term));
    if (claimants.length === 1 && claimants[0]?.leaseId === lease.leaseId) {
      this.#newestTermSeen = lease.term;
      return null;
    }
    // Not alone, or not there: a known loss. The head names a live winner, or says how long the contest lasts.
    const head = this.#seen(await run(() => table.readHead(name)));
    const others = head.leases.some((one) => one.leaseId !== lease.leaseId);
    const refused = others ? this.#refusedIfLive(head, lease.leaseId) : null;
    if (refused !== null) return refused;
    return refusal(
      new LeaseError(
        "CLAIM_NOT_RECORDED",
        `the claim of lease "${name}" at term ${lease.term} was answered with success, but reading the term back did not show it alone; nothing is held`,
        { outcome: "refused" },
      ),
      false,
      claimants.length > 1,
    );
  }

  #seen(head: Head): Head {
    if (head.term < this.#newestTermSeen) {
      // A claim from such a head would go to a term that is taken already.
      throw new Error(
        `lease "${this.#o.name}": the head read answered term ${head.term}, but term ${this.#newestTermSeen} was seen before; the read came from a replica that lags (is lease.topology right?), or the lease table was made anew while this process ran (restart it)`,
      );
    }
    this.#newestTermSeen = head.term;
    return head;
  }

  #refusedUnlessFree(head: Head, leaseId: string, renewal: boolean): Refused | null {
    const mine = head.leases.length === 1 && head.leases[0]?.leaseId === leaseId;
    if (mine) return null;
    const refused = this.#refusedIfLive(head, leaseId);
    if (refused !== null) return refused;
    if (!renewal) return null;
    // Somebody else held the lease since our last claim, and let it go. Renewing would pass that off as one unbroken holding.
    return refusal(
      new LeaseError(
        "LEASE_LOST",
        `lease "${this.#o.name}" was taken at term ${head.term} and given back since our last claim`,
        {
          reason: "taken-over",
          outcome: "refused",
          ...(head.leases[0] === undefined ? {} : { heldBy: head.leases[0].holder }),
        },
      ),
      false,
      false,
    );
  }

  #refusedIfLive(head: Head, leaseId: string | null): Refused | null {
    const first = head.leases[0];
    if (first === undefined) return null;
    const until = head.leases.reduce((latest, { expiresAtNs }) => (expiresAtNs > latest ? expiresAtNs : latest), 0n);
    if (until <= head.nowNs) return null;
    const remainingMs = Number((until - head.nowNs + 999_999n) / 1_000_000n);
    const contested = head.leases.length > 1;
    const foreign = head.leases.find((lease) => lease.leaseId !== leaseId && !this.#own.areAll([lease.leaseId]));
    const rival: HeadLease = foreign ?? first;
    const ownClaims = this.#own.areAll(head.leases.map((lease) => lease.leaseId));
    const what = contested
      ? `is contested at term ${head.term} by ${head.leases.length} claimants (${head.leases.map((l) => l.holder).join(", ")}): nobody holds it, and nobody can claim it`
      : `is held by ${rival.holder} (lease id ${rival.leaseId}, term ${head.term})`;
    return refusal(
      new LeaseError(
        "LEASE_HELD",
        `lease "${this.#o.name}" ${what} for another ${remainingMs} ms${ownClaims ? "; that row is an earlier claim of our own that landed late" : ""}`,
        { heldBy: rival.holder, remainingMs, contested, ownClaims, outcome: "refused" },
      ),
      ownClaims,
      contested,
    );
  }

  #underLease(deadline: Instant): Run {
    const { requestTimeoutMs } = this.#o.config;
    const { lease, request } = this.#bounds;
    return (statement) => withDeadline(deadline, () => within(requestTimeoutMs, statement, request), lease);
  }

  #underClaimBound(): Run {
    return (statement) => within(this.#o.config.claimBoundMs, statement, this.#bounds.claim);
  }

  #untilOwnDeadline<T>(lease: HeldLease, statement: () => Promise<T>): Promise<T> {
    return withDeadline(lease.deadline, statement, this.#bounds.own);
  }

  /** Asked once before, for a table that knows no scopes, and again for each attempt. */
  #whileWanted<T>(wanted: () => boolean, statement: () => Promise<T>): Promise<T> {
    if (wanted === always) return statement();
    if (!wanted()) {
      const text = `lease "${this.#o.name}" was dropped while its renewal was under way: nothing was written`;
      return Promise.reject(new LeaseError("LEASE_LOST", text));
    }
    return withDeadline(() => (wanted() ? never : "gone"), statement, this.#bounds.lease);
  }

  #seenTooLate(): Error {
    const { name, knobs } = this.#bounds.own;
    return new DeadlineExceededError(
      { name, ms: this.#o.config.holdMs, knobs },
      { outcome: "unknown", note: "the confirmation was seen too late to hold the lease by it" },
    );
  }
}

/** Made once for a coordinator: they stand in the errors of timeouts alone, and every statement of the protocol needs some. */
function boundNames(config: LeaseConfig, clock: Clock): Record<"lease" | "request" | "claim" | "own", BoundNames> {
  const { ttlMs, clockSkewMs, requestTimeoutMs } = config;
  const request = { "catalog.requestTimeoutMs": requestTimeoutMs };
  return {
    lease: { name: leaseDeadlineName, knobs: leaseKnobs(config), clock },
    request: { name: "catalog request", knobs: request, clock },
    claim: {
      name: "claim bound min(catalog.requestTimeoutMs, lease.ttlMs / 3)",
      knobs: { ...request, "lease.ttlMs": ttlMs },
      clock,
    },
    own: {
      name: `deadline of the lease being claimed (lease.ttlMs - lease.clockSkewMs - ${deadlineMarginMs} after its INSERT)`,
      knobs: { "lease.ttlMs": ttlMs, "lease.clockSkewMs": clockSkewMs },
      clock,
    },
  };
}
