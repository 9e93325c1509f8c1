export { openReader } from "./reader.js";
export { ReaderError } from "./reader-error.js";
export type { ReaderErrorCode } from "./reader-error.js";
export type {
  ColumnName,
  Condition,
  FoundRecord,
  Order,
  Reader,
  ReaderOptions,
  SearchQuery,
  Snapshot,
  Where,
} from "./reader-types.js";
