import { runSeed, runSlice, type SliceOptions } from "../slice.js";
import { faultFreeMix } from "../world/mix.js";

/** What a worker with a changed product is to do. */
export interface MutantJob {
  /** The only checker that is asked; null: all. */
  readonly checker: string | null;
  readonly from: number;
  readonly seedsAtMost: number;
  readonly faultFreeSeeds: number;
}

export interface MutantResult {
  readonly hashes: readonly string[];
  readonly killedAt: number | null;
  readonly checker: string | null;
  readonly text: string;
}

const ofTheSchemaLease = ["TwoAppliers", "HeldByLapsedClaim", "LateReleaseFreesNobody", "SchemaProgress"];

function optionsOf(checker: string | null): SliceOptions {
  if (checker === null) return {};
  return { only: checker, world: ofTheSchemaLease.includes(checker) ? "schema" : "publisher" };
}

async function judge(job: MutantJob): Promise<MutantResult> {
  const options = optionsOf(job.checker);
  // The behaviour alone is compared: what a checker thinks of it would end the run.
  const hashes: string[] = [];
  for (let seed = 0; seed < job.faultFreeSeeds; seed++) {
    hashes.push((await runSeed(seed, { mix: faultFreeMix, only: "none" })).hash);
  }
  for (let n = 0; n < job.seedsAtMost; n++) {
    const seed = job.from + n;
    const { failures } = await runSlice([seed], options);
    const found = failures[0]?.violations[0];
    if (found !== undefined)
      return { hashes, killedAt: n + 1, checker: found.checker, text: `seed ${seed}: ${found.text}` };
  }
  return { hashes, killedAt: null, checker: null, text: "" };
}

process.once("message", (message) => {
  void judge(message as MutantJob)
    .catch((error: unknown) => ({ hashes: [], killedAt: null, checker: null, text: String(error) }))
    .then((result) => process.send?.(result, () => process.disconnect()));
});
