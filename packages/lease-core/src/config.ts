import { LeaseError } from "./errors.js";

/**
 * Where the lease table lives. It fixes which statements need a quorum and which reads must be sequentially consistent:
 * `single` neither, `replicated` both, `cloud` the reads only.
 */
export type Topology = "single" | "replicated" | "cloud";

/** Settings of a publisher lease. All durations are whole milliseconds; see docs/protocols/publisher-lease.md for the relations. */
export type LeaseOptions = {
  /** How long a claim or renewal keeps rivals out, by the server's clock. Default 15000. */
  ttlMs?: number;
  /**
   * Bound on everything by which clocks may disagree during one TTL: pairwise difference of the ClickHouse servers, steps of their
   * clocks, and the rate error of the holder's clock over one TTL. Default 0, right for one server; needed above 0 on more.
   */
  clockSkewMs?: number;
  /** Bound on one fenced statement at the server. Default 5000. */
  publishTimeoutMs?: number;
  /** How long `acquire()` waits by default. Default ttlMs + publishTimeoutMs + clockSkewMs; 0 is one attempt. */
  startWaitMs?: number;
  /** How often a waiting `acquire()` looks again. Default ttlMs / 10, at least 50 and at most 500. */
  acquirePollMs?: number;
  /** Default "single". */
  topology?: Topology;
  /** Replicas that must have a lease row before its INSERT is answered; "replicated" only, at least 2. Default: the majority. */
  quorum?: number;
};

/** A complete, checked configuration with the numbers derived from it. Made by {@link leaseConfig}. */
export interface LeaseConfig {
  readonly ttlMs: number;
  readonly clockSkewMs: number;
  readonly publishTimeoutMs: number;
  readonly startWaitMs: number;
  readonly acquirePollMs: number;
  readonly requestTimeoutMs: number;
  readonly topology: Topology;
  /** `null` without quorum, "auto" for the majority. */
  readonly quorum: number | "auto" | null;
  /** Whether deciding reads ask for sequential consistency. */
  readonly sequentialReads: boolean;
  /** From the sending of a claim to its deadline: ttlMs − clockSkewMs − 100. */
  readonly holdMs: number;
  /** Longest request of a claim made without a lease: min(requestTimeoutMs, ttlMs / 3). */
  readonly claimBoundMs: number;
  /** max(ttlMs / 6, 10): the pause before trying again, and the unit of the random pause after a refusal. */
  readonly tickMs: number;
  /** ttlMs / 3: a renewal falls due this long after the last claim was sent. */
  readonly renewAfterMs: number;
  /** 2 × ttlMs: refusals by others for this long latch a publisher. */
  readonly latchAfterMs: number;
  /** 2 × ttlMs: a lease held this long clears the count of timeouts. */
  readonly streakClearsAfterMs: number;
  /** Things that are allowed and probably not meant. */
  readonly warnings: readonly string[];
}

/** Time kept back from every lease deadline for the way from a failed request to the holder saying so. */
export const deadlineMarginMs = 100;
/** Least time between ttlMs / 2 and the lease deadline. */
export const leastRenewalWindowMs = 200;
/** Least value of ttlMs − publishTimeoutMs − clockSkewMs. */
export const leastFenceMarginMs = 100;
/** Below this value of ttlMs − publishTimeoutMs − clockSkewMs a warning is given. */
export const narrowFenceMarginMs = 1000;

export const leaseDefaults = {
  ttlMs: 15_000,
  clockSkewMs: 0,
  publishTimeoutMs: 5_000,
  requestTimeoutMs: 60_000,
} as const;

function invalid(message: string): LeaseError {
  return new LeaseError("CONFIG_INVALID", message);
}

/**
 * A duration as it was given, or its default. @throws LeaseError CONFIG_INVALID for anything but a whole number of at least `least`.
 * @internal
 */
export function duration(path: string, value: unknown, fallback: number, least: number): number {
  if (value === undefined) return fallback;
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < least) {
    const range = least === 0 ? "0 or more" : least === 1 ? "above 0" : `at least ${least}`;
    const given = typeof value === "number" ? String(value) : JSON.stringify(value);
    throw invalid(`${path} is ${given}; it must be a whole number of milliseconds, ${range}`);
  }
  return value;
}

/**
 * The name of a holder as it goes into the rows. @throws LeaseError CONFIG_INVALID unless it is 1 to 256 bytes long.
 * @internal
 */
export function holderName(path: string, holder: string): string {
  const bytes = Buffer.byteLength(holder);
  if (bytes < 1 || bytes > 256) throw invalid(`${path} is ${bytes} bytes long; it must be 1 to 256 bytes`);
  return holder;
}

/**
 * The name of a lease. @throws LeaseError CONFIG_INVALID when it is empty.
 * @internal
 */
export function leaseName(name: string): string {
  if (name === "") throw invalid("name is empty; a lease needs a name");
  return name;
}

function checkRelations(ttlMs: number, skewMs: number, publishMs: number, requestMs: number): string[] {
  const greatestSkew = ttlMs / 2 - deadlineMarginMs - leastRenewalWindowMs;
  if (greatestSkew < 0) {
    const least = 2 * (deadlineMarginMs + leastRenewalWindowMs);
    throw invalid(`lease.ttlMs is ${ttlMs}, but it must be at least ${least}, so that a renewal can be made in time`);
  }
  if (skewMs > greatestSkew) {
    throw invalid(
      `lease.clockSkewMs is ${skewMs}, but with lease.ttlMs ${ttlMs} it may be at most ${Math.floor(greatestSkew)} ` +
        `(lease.ttlMs / 2 - ${deadlineMarginMs + leastRenewalWindowMs}), so that a renewal has at least ${leastRenewalWindowMs} ms before the lease deadline; ` +
        `make lease.ttlMs at least ${2 * (skewMs + deadlineMarginMs + leastRenewalWindowMs)} or lower lease.clockSkewMs`,
    );
  }
  const margin = ttlMs - publishMs - skewMs;
  const sum = `lease.ttlMs - lease.publishTimeoutMs - lease.clockSkewMs = ${ttlMs} - ${publishMs} - ${skewMs} = ${margin}`;
  if (margin < leastFenceMarginMs) {
    throw invalid(
      `${sum}, but it must be at least ${leastFenceMarginMs}, or no fenced statement is ever admitted; raise lease.ttlMs or lower lease.publishTimeoutMs`,
    );
  }
  if (requestMs < 2 * publishMs) {
    throw invalid(
      `catalog.requestTimeoutMs is ${requestMs}, but it must be at least 2 * lease.publishTimeoutMs = ${2 * publishMs}; raise it or lower lease.publishTimeoutMs`,
    );
  }
  return margin < narrowFenceMarginMs
    ? [
        `${sum}: fenced statements are admitted for that long after a renewal only; ${narrowFenceMarginMs} or more is advised`,
      ]
    : [];
}

function quorumOf(topology: Topology, quorum: unknown, skewMs: number): number | "auto" | null {
  if (quorum !== undefined) {
    if (typeof quorum !== "number" || !Number.isSafeInteger(quorum) || quorum < 2) {
      throw invalid(`lease.quorum is ${JSON.stringify(quorum)}; it must be a whole number of replicas, at least 2`);
    }
    if (topology !== "replicated") {
      throw invalid(
        `lease.quorum is ${quorum}, but lease.topology is "${topology}"; a quorum needs lease.topology "replicated"`,
      );
    }
  }
  if (topology !== "single" && skewMs <= 0) {
    throw invalid(
      `lease.clockSkewMs is ${skewMs}, but lease.topology "${topology}" means several servers, whose clocks differ; set it to the most by which any two of them may`,
    );
  }
  return topology === "replicated" ? (quorum ?? "auto") : null;
}

/**
 * Fills in the defaults and checks every relation between the settings.
 * @throws LeaseError CONFIG_INVALID, with the numbers and the full paths of the settings concerned.
 */
export function leaseConfig(o: { lease?: LeaseOptions; catalog?: { requestTimeoutMs?: number } } = {}): LeaseConfig {
  const lease = o.lease ?? {};
  const ttlMs = duration("lease.ttlMs", lease.ttlMs, leaseDefaults.ttlMs, 1);
  const clockSkewMs = duration("lease.clockSkewMs", lease.clockSkewMs, leaseDefaults.clockSkewMs, 0);
  const publishTimeoutMs = duration(
    "lease.publishTimeoutMs",
    lease.publishTimeoutMs,
    leaseDefaults.publishTimeoutMs,
    1,
  );
  const requestTimeoutMs = duration(
    "catalog.requestTimeoutMs",
    o.catalog?.requestTimeoutMs,
    leaseDefaults.requestTimeoutMs,
    1,
  );
  const startWaitMs = duration("lease.startWaitMs", lease.startWaitMs, ttlMs + publishTimeoutMs + clockSkewMs, 0);
  const usualPoll = Math.round(Math.min(500, Math.max(50, ttlMs / 10)));
  const acquirePollMs = duration("lease.acquirePollMs", lease.acquirePollMs, usualPoll, 1);
  const topology = lease.topology ?? "single";
  if (!["single", "replicated", "cloud"].includes(topology)) {
    throw invalid(`lease.topology is ${JSON.stringify(topology)}; it must be "single", "replicated" or "cloud"`);
  }
  const quorum = quorumOf(topology, lease.quorum, clockSkewMs);
  const warnings = checkRelations(ttlMs, clockSkewMs, publishTimeoutMs, requestTimeoutMs);
  return Object.freeze({
    ttlMs,
    clockSkewMs,
    publishTimeoutMs,
    startWaitMs,
    acquirePollMs,
    requestTimeoutMs,
    topology,
    quorum,
    sequentialReads: topology !== "single",
    // Safety: the server stamps a row no earlier than its claim was sent, so on the holder's clock the row keeps rivals out until sent +
    // ttlMs, less what a rival's server may be ahead; the margin is for noticing. From the sending, never from the reply: how long the
    // answer took says nothing about when the row was stamped.
    holdMs: ttlMs - clockSkewMs - deadlineMarginMs,
    claimBoundMs: Math.max(1, Math.min(requestTimeoutMs, Math.floor(ttlMs / 3))),
    tickMs: Math.max(ttlMs / 6, 10),
    renewAfterMs: ttlMs / 3,
    latchAfterMs: 2 * ttlMs,
    streakClearsAfterMs: 2 * ttlMs,
    warnings,
  });
}

/**
 * Refuses a configuration that did not come from {@link leaseConfig}: numbers put together by hand have no rule behind them.
 * @throws LeaseError CONFIG_INVALID, for a broken rule as `leaseConfig` does, else naming the number that does not follow.
 * @internal
 */
export function requireLeaseConfig(config: LeaseConfig): LeaseConfig {
  const { ttlMs, clockSkewMs, publishTimeoutMs, startWaitMs, acquirePollMs, requestTimeoutMs, topology, quorum } =
    config;
  const lease = { ttlMs, clockSkewMs, publishTimeoutMs, startWaitMs, acquirePollMs, topology };
  const rightful = leaseConfig({
    lease: typeof quorum === "number" ? { ...lease, quorum } : lease,
    catalog: { requestTimeoutMs },
  });
  for (const [key, value] of Object.entries(rightful) as [keyof LeaseConfig, unknown][]) {
    if (key === "warnings" || config[key] === value) continue;
    throw invalid(
      `config.${key} is ${String(config[key])}, but ${String(value)} follows from the other settings; make the configuration with leaseConfig()`,
    );
  }
  return config;
}

/** How the lease deadline is called in errors. */
export const leaseDeadlineName = `lease deadline (lease.ttlMs - lease.clockSkewMs - ${deadlineMarginMs} after the claim was sent)`;

/** The bounds of a request under a lease, as the path of each setting and its value: what a timeout's message names. */
export function leaseKnobs(config: LeaseConfig): Record<string, number> {
  return {
    "lease.ttlMs": config.ttlMs,
    "lease.clockSkewMs": config.clockSkewMs,
    "catalog.requestTimeoutMs": config.requestTimeoutMs,
  };
}
