export type { Body, ByteRange, Call, Capabilities, ObjectInfo, ObjectStore, PutOptions, PutResult } from "./store.js";
export {
  ContractBrokenError,
  ObjectStoreError,
  asError,
  errorCode,
  type ObjectStoreErrorCode,
  type ProbedClause,
} from "./errors.js";
export { checkKey, checkPrefix, compareKeys, maxKeyBytes } from "./keys.js";
export { checkMetadata, maxMetadataBytes } from "./metadata.js";
export { checkMode, checkPut } from "./put-rules.js";
export { checkLimit, checkRange, resolveRange } from "./range.js";
export { bodyPieces, bodySize, checkBodySize, collectBody } from "./body.js";
export { abortError, eachUntilAborted, onAbort, throwIfAborted, untilAborted } from "./signal.js";
export { createLimiter, type Limiter } from "./limiter.js";
export { getExactly } from "./exact.js";
export { listPages } from "./pages.js";
export { systemRandom, uniqueId } from "./prng.js";
export { probe, type ProbeOptions } from "./probe.js";
export { putVerified, resolveUnknownPut, writeIdKey, type ResolvedPut, type VerifiedPutResult } from "./verified.js";
export { memoryStore, type MemoryStoreOptions } from "./memory-store.js";
