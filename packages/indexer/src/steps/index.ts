import { createContext } from "../context.js";
import type { IndexerOptions, IndexResult } from "../indexer-types.js";
import type { PackRef } from "../pack-ref.js";
import { commit } from "./commit.js";
import { plan, type Plan, type UnlistedPack } from "./plan.js";
import { read, type ReadPack, type ReadPass } from "./read.js";

export type { Plan, ReadPack, ReadPass, UnlistedPack };
export type { DescriptorRow } from "./descriptors.js";

/** The three thirds of a pass, for those who schedule them themselves. */
export interface IndexSteps {
  /** Under the lease lock: which packs are to be read. */
  plan(packs: readonly PackRef[]): Promise<Plan>;
  /** Without the lease lock: the indexes of those packs. */
  read(plan: Plan, o?: { signal?: AbortSignal }): Promise<ReadPass>;
  /** Under the lease lock: makes them visible. */
  commit(pass: ReadPass): Promise<IndexResult>;
}

/**
 * The steps of one catalog. They do not take the pass lock: two passes over one pack under one keeper are then still
 * published once, since commit asks the guard again, but the second has read the pack for nothing.
 */
export function createIndexSteps(options: IndexerOptions): IndexSteps {
  const context = createContext(options);
  return {
    plan: (packs) => plan(context, packs),
    read: (planned, o) => read(context, planned, o),
    commit: (pass) => commit(context, pass),
  };
}
