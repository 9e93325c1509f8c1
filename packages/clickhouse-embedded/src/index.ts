export { startEmbeddedClickHouse } from "./start.js";
export { type EmbeddedClickHouse } from "./handle.js";
export { type EmbeddedOptions } from "./options.js";
export { EmbeddedError, type EmbeddedErrorCode } from "./errors.js";
export { type QueryOutcome, type RecentQuery } from "./recent-log.js";
