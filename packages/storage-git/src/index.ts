export { gitStore, type GitBatchResult, type GitStore, type GitWritten } from "./git-store.js";
export { type GitBatch, type GitChange, type GitChangeOptions } from "./batch.js";
export { ConcurrencyConflictError, RemoteUnavailableError } from "./errors.js";
export { type GitClock, type GitCredentials, type GitStoreOptions } from "./options.js";
