export { createIndexer } from "./indexer.js";
export { CatalogError } from "./catalog-error.js";
export type { CatalogErrorCode, PackFailureCode } from "./catalog-error.js";
export {
  catalogPrefix,
  firstSequence,
  greatestSequence,
  isPackId,
  listFrom,
  packKey,
  parsePackKey,
  voidKey,
  writerPrefix,
} from "./keys.js";
export type { PackKeyParts } from "./keys.js";
export { maxPackRecords, packFormat, packMetadata, packRefFromInfo } from "./pack-ref.js";
export type { PackRef } from "./pack-ref.js";
export type {
  FailureKind,
  Indexer,
  IndexerCounters,
  IndexerLimits,
  IndexerOptions,
  IndexResult,
  PackFailure,
  ReconcileResult,
} from "./indexer-types.js";
