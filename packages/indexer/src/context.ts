import { systemClock, type Clock } from "@holdfast/deadline-http";
import type { LeaseKeeper } from "@holdfast/lease-core";
import type { CaptureSchema } from "@holdfast/pack-format";
import { catalogClient, type CatalogClient } from "./catalog-client.js";
import { tableReferences, type CatalogTables } from "./catalog/tables.js";
import type { IndexerCounters, IndexerLimits, IndexerOptions } from "./indexer-types.js";
import { systemRandom, type Random } from "./prng.js";
import { storeAccess, type StoreAccess } from "./store-access.js";

/** Counters as they are counted; IndexerCounters is the outside view. */
export type MutableCounters = { -readonly [Name in Exclude<keyof IndexerCounters, "catalogStatements">]: number };

/** What every part of the indexer works with. */
export type Context = {
  readonly catalog: CatalogClient;
  readonly tables: CatalogTables;
  readonly schema: CaptureSchema;
  readonly store: StoreAccess;
  readonly keeper: LeaseKeeper;
  readonly clock: Clock;
  readonly random: Random;
  readonly limits: Required<IndexerLimits>;
  readonly counters: MutableCounters;
};

export const defaultRequestTimeoutMs = 60_000;
const greatestRowsPerInsert = 10_000;

/** Fills in the defaults and binds client and store. Makes no request. */
export function createContext(o: IndexerOptions): Context {
  const clock = o.clock ?? systemClock;
  const requestTimeoutMs = o.requestTimeoutMs ?? defaultRequestTimeoutMs;
  const limits = fillLimits(o.limits ?? {}, requestTimeoutMs);
  return {
    catalog: catalogClient({ client: o.client, requestTimeoutMs, clock: o.clock, lease: o.keeper.config }),
    tables: tableReferences(o.schema.name, o.database),
    schema: o.schema,
    store: storeAccess({ store: o.store, clock, timeoutMs: limits.storeTimeoutMs }),
    keeper: o.keeper,
    clock,
    random: o.random ?? systemRandom,
    limits,
    counters: {
      passes: 0,
      publishes: 0,
      publishRaces: 0,
      batchSplits: 0,
      indexedPacks: 0,
      indexedRecords: 0,
      skippedPacks: 0,
      failedPacks: 0,
      repairedInventory: 0,
      reconcilePasses: 0,
      reconciledPacks: 0,
      foreignObjects: 0,
      headErrors: 0,
    },
  };
}

function fillLimits(limits: IndexerLimits, requestTimeoutMs: number): Required<IndexerLimits> {
  return {
    packsPerPass: Math.max(1, limits.packsPerPass ?? 64),
    rowsPerInsert: Math.min(greatestRowsPerInsert, Math.max(1, limits.rowsPerInsert ?? 5000)),
    passBytes: limits.passBytes ?? 128 * 1024 * 1024,
    publishAttempts: Math.max(1, limits.publishAttempts ?? 8),
    allocationAttempts: Math.max(1, limits.allocationAttempts ?? 16),
    storeTimeoutMs: limits.storeTimeoutMs ?? requestTimeoutMs,
    packAttempts: Math.max(1, limits.packAttempts ?? 5),
  };
}
