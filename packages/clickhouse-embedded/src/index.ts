export { startEmbeddedClickHouse, type EmbeddedClickHouse, type EmbeddedOptions } from "./start.js";
export { EmbeddedError, type EmbeddedErrorCode } from "./errors.js";
export { type QueryOutcome, type RecentQuery } from "./recent-log.js";
