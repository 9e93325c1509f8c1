/**
 * What a caller may branch on:
 *
 * - `CATALOG_NOT_FOUND`: no catalog of this schema in this database.
 * - `CATALOG_NEWER`: its layout is of a newer Holdfast.
 * - `CATALOG_SCHEMA_MISMATCH`: its fields do not fit the capture schema, or its layout is older.
 * - `CATALOG_UNREACHABLE`: ClickHouse did not answer.
 * - `CATALOG_ACCESS_DENIED`: ClickHouse refused the user, the password or a grant.
 * - `SNAPSHOT_NOT_FOUND`: the asked version is above the newest visible one.
 * - `QUERY_INVALID`: a filter, an order or a limit that the schema does not have or allow.
 * - `CURSOR_INVALID`: a cursor of another query or snapshot, or damaged.
 * - `RECORD_GONE`: the object that holds the record is no longer in the store.
 * - `RECORD_CORRUPT`: the bytes in the store are not those that were captured.
 * - `STORE_MISMATCH`: the record lies in another store than the reader's.
 * - `STORE_UNAVAILABLE`: the object store did not answer.
 * - `READER_CLOSED`: the reader was closed.
 */
export type ReaderErrorCode =
  | "CATALOG_NOT_FOUND"
  | "CATALOG_NEWER"
  | "CATALOG_SCHEMA_MISMATCH"
  | "CATALOG_UNREACHABLE"
  | "CATALOG_ACCESS_DENIED"
  | "SNAPSHOT_NOT_FOUND"
  | "QUERY_INVALID"
  | "CURSOR_INVALID"
  | "RECORD_GONE"
  | "RECORD_CORRUPT"
  | "STORE_MISMATCH"
  | "STORE_UNAVAILABLE"
  | "READER_CLOSED";

/** Error of the reader; branch on `code`. */
export class ReaderError extends Error {
  override readonly name = "ReaderError";
  readonly code: ReaderErrorCode;

  constructor(code: ReaderErrorCode, message: string, o: { cause?: unknown } = {}) {
    super(`[${code}] ${message}`, o.cause === undefined ? undefined : { cause: o.cause });
    this.code = code;
  }
}
