import type { StatementFaults } from "./mix.js";
import { between, chance, pick, prng } from "./prng.js";

/** What a seed stands for in the world of the schema lease. */
export interface SchemaMix {
  readonly appliers: number;
  readonly replicas: number;
  /** How long a row may take from the replica that took it to another. */
  readonly lagMs: number;
  readonly leaseMs: number;
  readonly settleMs: number;
  readonly pollMs: number;
  readonly requestMs: number;
  /** Pairwise difference of the appliers' wall clocks. */
  readonly wallSkewMs: number;
  /** Rate error of their monotonic clocks, as a part. */
  readonly rateError: number;
  readonly latencyMs: readonly [number, number];
  readonly readMs: readonly [number, number];
  readonly insertMs: readonly [number, number];
  readonly turnMs: number;
  readonly faults: StatementFaults | null;
  /** How often in a lease, on average, a process is stalled, or suspended. */
  readonly stalls: number;
  readonly crashes: number;
  readonly strictReadback: boolean;
  /** Longest work under the lease, in leases: above 1 it runs past its claim. */
  readonly workLeases: number;
  /** Length of the part with faults. */
  readonly safetyMs: number;
}

/**
 * Replicas lag by less than a quarter of the settle. Then a rival that did not see our claim read before it had come to its replica, and
 * its own claim, which holds only if it is answered within half a settle of that read, is everywhere before our deciding read:
 * lag + settle / 2 + lag < settle, with room for the clocks' rates.
 */
const lagOfSettle = 0.22;

export function schemaMixOf(seed: number): SchemaMix {
  const random = prng(seed, 30_000);
  const settleMs = pick(random, [200, 500]);
  const leaseMs = pick(random, [2000, 4000]);
  const rate = (most: number): number => (chance(random, 0.4) ? random() * most : 0);
  const faults: StatementFaults = {
    lost: rate(0.05),
    answerLost: rate(0.05),
    reset: rate(0.05),
    late: rate(0.2),
    lateTtls: between(random, 0.05, 1),
    // A claim that somebody on the way repeats after the settle is beyond what the lease promises: it may tie with a holder's.
    duplicate: 0,
    unsent: rate(0.1),
    refused: rate(0.05),
    limited: 0,
    dropped: 0,
  };
  const slow = between(random, 0.02, 0.6) * settleMs;
  return {
    appliers: 2 + Math.floor(random() * 3),
    replicas: 1 + Math.floor(random() * 3),
    lagMs: random() * lagOfSettle * settleMs,
    leaseMs,
    settleMs,
    pollMs: Math.floor(between(random, 0.1, 0.4) * leaseMs),
    requestMs: Math.floor(between(random, 0.5, 2) * leaseMs),
    wallSkewMs: chance(random, 0.5) ? 0 : random() * 0.1 * leaseMs,
    rateError: random() * 0.01,
    latencyMs: [1, pick(random, [2, 10, slow / 3])],
    readMs: [1, pick(random, [3, slow / 3])],
    insertMs: [1, pick(random, [5, slow])],
    turnMs: pick(random, [0, 2, 20]),
    faults: chance(random, 0.8) ? faults : null,
    stalls: rate(2),
    crashes: rate(0.5),
    strictReadback: chance(random, 0.3),
    workLeases: pick(random, [0.3, 0.6, 1.4]),
    safetyMs: between(random, 2, 4) * leaseMs,
  };
}
