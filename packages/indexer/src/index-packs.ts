import { codeOf, messageOf } from "./catalog-error.js";
import type { Context } from "./context.js";
import type { IndexResult } from "./indexer-types.js";
import type { PackRef } from "./pack-ref.js";
import { commit } from "./steps/commit.js";
import { plan } from "./steps/plan.js";
import { read, type ReadPass } from "./steps/read.js";

const nothing: IndexResult = {
  requested: 0,
  skipped: 0,
  indexedPacks: 0,
  indexedRecords: 0,
  version: null,
  failures: [],
};

/** Passes over packs, one after another; the caller holds the pass lock. */
export async function indexPacks(
  context: Context,
  packs: readonly PackRef[],
  o: { signal?: AbortSignal | undefined } = {},
): Promise<IndexResult> {
  let total = nothing;
  for (let at = 0; at < packs.length; at += context.limits.packsPerPass) {
    const some = packs.slice(at, at + context.limits.packsPerPass);
    total = sum(total, await onePass(context, some, o.signal));
  }
  return total;
}

async function onePass(
  context: Context,
  packs: readonly PackRef[],
  signal: AbortSignal | undefined,
): Promise<IndexResult> {
  context.counters.passes += 1;
  const planned = await plan(context, packs);
  let pass: ReadPass;
  try {
    pass = await read(context, planned, signal === undefined ? {} : { signal });
  } catch (error) {
    if (codeOf(error) !== "BATCH_TOO_LARGE") throw error;
    const [only] = packs;
    if (packs.length > 1 || only === undefined) return inHalves(context, packs, signal);
    context.counters.failedPacks += 1;
    const failure = { pack: only, code: "BATCH_TOO_LARGE", message: messageOf(error), kind: "pack" as const };
    return { ...nothing, requested: 1, failures: [failure] };
  }
  return commit(context, pass);
}

async function inHalves(
  context: Context,
  packs: readonly PackRef[],
  signal: AbortSignal | undefined,
): Promise<IndexResult> {
  context.counters.batchSplits += 1;
  const middle = Math.ceil(packs.length / 2);
  const first = await onePass(context, packs.slice(0, middle), signal);
  return sum(first, await onePass(context, packs.slice(middle), signal));
}

function sum(a: IndexResult, b: IndexResult): IndexResult {
  return {
    requested: a.requested + b.requested,
    skipped: a.skipped + b.skipped,
    indexedPacks: a.indexedPacks + b.indexedPacks,
    indexedRecords: a.indexedRecords + b.indexedRecords,
    version: b.version ?? a.version,
    failures: [...a.failures, ...b.failures],
  };
}
