import { between, chance, pick, prng, type Random } from "./prng.js";

/** How the clocks stand to the bound that they were promised to keep. */
export type ClockMode = "within" | "beyond-holder" | "beyond-server";

export type Reacquire = "latch" | "keep-trying" | "no";

/** Probabilities of what can happen to one statement. */
export interface StatementFaults {
  /** Sent, never arrives. */
  readonly lost: number;
  /** Executed, the answer never arrives. */
  readonly answerLost: number;
  /** Executed, then the connection breaks. */
  readonly reset: number;
  /** Held up on its way for up to `lateTtls` TTLs. */
  readonly late: number;
  readonly lateTtls: number;
  /** Executed twice, the second time late. */
  readonly duplicate: number;
  /** No connection: provably not sent. */
  readonly unsent: number;
  /** Refused before execution. */
  readonly refused: number;
  /** Takes longer than its cap: ended by a server limit, with or without its row. */
  readonly limited: number;
  /** Answered with success, but there is no row. */
  readonly dropped: number;
}

/** How often, on average, something happens to a machine or to the server in ten TTLs. */
export interface Events {
  readonly stall: number;
  readonly suspend: number;
  readonly crash: number;
  readonly partition: number;
  readonly serverStall: number;
  readonly clockStep: number;
  readonly parting: number;
}

/** What a seed stands for: the number of holders, their settings, the machine's speed, and which faults there are. */
export interface Mix {
  readonly profile: string;
  readonly clocks: ClockMode;
  readonly holders: number;
  readonly ttlMs: number;
  readonly clockSkewMs: number;
  readonly publishMs: number;
  readonly requestMs: number;
  /** Rate error of the holders' clocks, as a part; and pairwise difference of the servers' clocks, ms. */
  readonly rateError: number;
  readonly serverSkewMs: number;
  readonly servers: number;
  readonly latencyMs: readonly [number, number];
  readonly readMs: readonly [number, number];
  readonly insertMs: readonly [number, number];
  /** Longest time that one turn of a holder's code takes. */
  readonly turnMs: number;
  /** Probability that a turn takes far longer than that, in the middle. */
  readonly longTurn: number;
  readonly faults: StatementFaults;
  readonly events: Events;
  readonly reacquire: readonly Reacquire[];
  /** Probability that a turn begins with a look at the keeper's state. */
  readonly looks: number;
  /** Length of the part with faults. */
  readonly safetyMs: number;
  /** Pause between two looks of a wait for the lease. */
  readonly pollMs: number;
  /** Longest pause of a job between two pieces of work, in TTLs. */
  readonly idleTtls: number;
  /** How often a holder gives the lease back, in ten TTLs. */
  readonly releases: number;
  /** All holders start at one moment, else spread over a TTL. */
  readonly together: boolean;
}

const noFaults: StatementFaults = {
  lost: 0,
  answerLost: 0,
  reset: 0,
  late: 0,
  lateTtls: 0,
  duplicate: 0,
  unsent: 0,
  refused: 0,
  limited: 0,
  dropped: 0,
};
const noEvents: Events = {
  stall: 0,
  suspend: 0,
  crash: 0,
  partition: 0,
  serverStall: 0,
  clockStep: 0,
  parting: 0,
};

/** Some of the faults, at random, each with a probability drawn anew: a run with one kind alone finds what a mixture hides. */
function someFaults(random: Random): StatementFaults {
  const rate = (most: number): number => (chance(random, 0.35) ? random() * most : 0);
  return {
    lost: rate(0.04),
    answerLost: rate(0.04),
    reset: rate(0.03),
    late: rate(0.08),
    lateTtls: between(random, 0.2, 1.5),
    duplicate: rate(0.1),
    unsent: rate(0.1),
    refused: rate(0.05),
    limited: rate(0.05),
    dropped: rate(0.04),
  };
}

function someEvents(random: Random): Events {
  const rate = (most: number): number => (chance(random, 0.45) ? random() * most : 0);
  return {
    stall: rate(3),
    suspend: rate(3),
    crash: rate(1.5),
    partition: rate(2),
    serverStall: rate(1.5),
    clockStep: rate(2),
    parting: rate(2),
  };
}

const base = {
  profile: "swarm",
  clocks: "within",
  servers: 1,
  rateError: 0,
  serverSkewMs: 0,
  clockSkewMs: 0,
  longTurn: 0,
  faults: noFaults,
  events: noEvents,
  releases: 0,
  pollMs: 500,
  idleTtls: 0.4,
  together: false,
} as const;

/** No fault of any kind: what a mutant must not change. */
export function faultFreeMix(seed: number): Mix {
  const random = prng(seed, 1);
  const ttlMs = pick(random, [3000, 6000]);
  return {
    ...base,
    profile: "fault-free",
    holders: 2,
    ttlMs,
    publishMs: ttlMs / 3,
    requestMs: 4 * ttlMs,
    latencyMs: [1, 4],
    readMs: [1, 5],
    insertMs: [2, 15],
    turnMs: 0,
    reacquire: ["latch"],
    looks: 0.3,
    safetyMs: 12 * ttlMs,
  };
}

/** INSERTs of 0.2 TTL, reads of 0.067 TTL, nothing else wrong: the lease is to be kept. */
function slowMix(random: Random): Mix {
  const ttlMs = pick(random, [3000, 6000]);
  const readMs = Math.floor(0.067 * ttlMs) - 2;
  const insertMs = Math.floor(0.2 * ttlMs) - 2;
  return {
    ...base,
    profile: "slow",
    holders: 1,
    ttlMs,
    publishMs: ttlMs / 3,
    requestMs: 7 * ttlMs,
    latencyMs: [1, 1],
    readMs: [readMs, readMs],
    insertMs: [insertMs, insertMs],
    turnMs: pick(random, [0, 2, 8]),
    reacquire: ["latch"],
    looks: chance(random, 0.5) ? 0.2 : 0,
    safetyMs: 14 * ttlMs,
  };
}

/** Holders that are alike to the millisecond: only chance of their own tells them apart. */
function symmetricMix(random: Random): Mix {
  return {
    ...base,
    profile: "symmetric",
    holders: 2 + Math.floor(random() * 2),
    ttlMs: 1500,
    publishMs: 400,
    requestMs: 6000,
    latencyMs: [4, 4],
    readMs: [2, 2],
    insertMs: [6, 6],
    turnMs: 0,
    reacquire: ["keep-trying"],
    looks: 0,
    safetyMs: 1,
    together: true,
  };
}

function swarmMix(random: Random, clocks: ClockMode): Mix {
  const ttlMs = pick(random, [1200, 1500, 2000, 3000]);
  const publishMs = Math.floor(between(random, 0.15, 0.4) * ttlMs);
  const mostSkew = Math.min(ttlMs / 2 - 300, ttlMs - publishMs - 100, 0.45 * ttlMs);
  const clockSkewMs = chance(random, 0.3) ? 0 : Math.floor(random() * mostSkew);
  const forRate = random() * clockSkewMs;
  const beyond = clocks === "beyond-holder";
  const latencyHigh = pick(random, [3, 10, 30]);
  const readHigh = pick(random, [3, 20, 0.06 * ttlMs]);
  const insertHigh = pick(random, [5, 40, 0.18 * ttlMs]);
  return {
    ...base,
    clocks,
    holders: 2 + Math.floor(random() * 3),
    ttlMs,
    clockSkewMs,
    publishMs,
    requestMs: Math.floor(pick(random, [2 * publishMs, ttlMs, 8 * ttlMs])) + publishMs,
    rateError: beyond ? between(random, 0.1, 0.6) : forRate / ttlMs,
    serverSkewMs: clocks === "beyond-server" ? clockSkewMs + random() * ttlMs : (clockSkewMs - forRate) * 0.999,
    servers: 1 + Math.floor(random() * 3),
    latencyMs: [1, latencyHigh],
    readMs: [1, readHigh],
    insertMs: [1, insertHigh],
    turnMs: pick(random, [0, 0, 3, 15, 60]),
    longTurn: chance(random, 0.3) ? 0.002 : 0,
    faults: chance(random, 0.85) ? someFaults(random) : noFaults,
    events: chance(random, 0.85) ? someEvents(random) : noEvents,
    reacquire: pick(random, [["latch"], ["keep-trying"], ["no"], ["latch", "keep-trying"], ["keep-trying", "no"]]),
    pollMs: Math.ceil(pick(random, [0.1, 0.25, 0.4]) * ttlMs),
    idleTtls: pick(random, [0.3, 1, 2]),
    looks: pick(random, [0, 0.05, 0.05, 1]),
    safetyMs: between(random, 20, 34) * ttlMs,
    releases: chance(random, 0.6) ? random() * 4 : 0,
    together: chance(random, 0.3),
  };
}

/** The mix that a seed stands for. */
export function mixOf(seed: number): Mix {
  const random = prng(seed, 0);
  const draw = random();
  if (draw < 0.05) return slowMix(random);
  if (draw < 0.09) return symmetricMix(random);
  if (draw < 0.11) return faultFreeMix(seed);
  if (draw < 0.22) return swarmMix(random, "beyond-holder");
  if (draw < 0.27) return swarmMix(random, "beyond-server");
  return swarmMix(random, "within");
}
