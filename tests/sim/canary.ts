import { runSlice, type SliceOptions } from "./slice.js";

const seedsAtMost = 300;

interface Verdict {
  readonly killed: boolean;
  readonly text: string;
}

/**
 * Worlds that break their promise: an admitted statement runs on long after its time limit, so that two can meet; replicas lag for
 * longer than the settle. The checker for that must say so; one that says nothing would say nothing of the product either.
 */
export async function canary(): Promise<Verdict> {
  const lingering = await one("statements outlive their limit", "MutualExclusion", { world: "publisher", lingers: 12 });
  const lagging = await one("replicas lag by more than the settle", "TwoAppliers", { world: "schema", lags: 8 });
  return { killed: lingering.killed && lagging.killed, text: `canaries: ${lingering.text}; ${lagging.text}` };
}

async function one(what: string, checker: string, o: SliceOptions): Promise<Verdict> {
  const seeds = Array.from({ length: seedsAtMost }, (_, n) => n);
  const { failures } = await runSlice(seeds, { ...o, only: checker, stopAtFailure: true });
  const seed = failures[0]?.seed;
  if (seed === undefined) return { killed: false, text: `${what}: ALIVE after ${seedsAtMost} seeds` };
  return { killed: true, text: `${what}: ${checker} at seed ${seed}` };
}
