import { createContext } from "./context.js";
import { indexPacks } from "./index-packs.js";
import type { Indexer, IndexerCounters, IndexerOptions } from "./indexer-types.js";
import { passLock } from "./pass-lock.js";
import { Reconciler } from "./reconcile/reconciler.js";
import { ensureSchema } from "./schema/ensure.js";

const defaultFullIntervalMs = 3_600_000;

/**
 * The indexer of one catalog. Makes no request. Throws CATALOG_NAME_INVALID for a database name that cannot stand in a
 * statement.
 */
export function createIndexer(options: IndexerOptions): Indexer {
  const context = createContext(options);
  const reconciler = new Reconciler(context, options.reconcile?.fullIntervalMs ?? defaultFullIntervalMs);
  const lock = passLock(options.keeper);
  return {
    ensureSchema: (o = {}) => ensureSchema(context, options, o),
    index: (packs, o = {}) => lock(() => indexPacks(context, packs, o), o.signal ?? new AbortController().signal),
    reconcile: (o = {}) => reconciler.run(o),
    setAside: (packs) => reconciler.setAside(packs),
    get counters(): IndexerCounters {
      return { ...context.counters, catalogStatements: context.catalog.statements };
    },
  };
}
