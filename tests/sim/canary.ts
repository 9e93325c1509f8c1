import { runSlice } from "./slice.js";

const seedsAtMost = 300;

/**
 * A world that breaks its promise: an admitted statement runs on long after its time limit, so that two can meet. The checker for that
 * must say so; one that says nothing would say nothing of the product either.
 */
export async function canary(): Promise<{ killed: boolean; text: string }> {
  const seeds = Array.from({ length: seedsAtMost }, (_, n) => n);
  const { failures } = await runSlice(seeds, { lingers: 12, stopAtFailure: true });
  const found = failures[0]?.violations.find(({ checker }) => checker === "MutualExclusion");
  return found === undefined
    ? {
        killed: false,
        text: `the canary lives: no checker minded statements that outlive their limit in ${seedsAtMost} seeds`,
      }
    : { killed: true, text: `canary (statements outlive their limit): ${found.checker} at seed ${failures[0]!.seed}` };
}
