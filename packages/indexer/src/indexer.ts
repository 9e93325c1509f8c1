import type { Indexer, IndexerOptions } from "./indexer-types.js";

/** The indexer of one catalog. Makes no request. */
export function createIndexer(options: IndexerOptions): Indexer {
  throw new Error(`not built yet: ${options.schema.name}`);
}
