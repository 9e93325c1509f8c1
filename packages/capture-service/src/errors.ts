/**
 * The codes of this package's own errors.
 *
 * - `ADMISSION_TIMEOUT`: no room in the spool within `spool.admissionTimeoutMs`; the record was not taken.
 * - `CONFIG_INVALID`: a setting that cannot work; the message names it by its full path, with the value.
 * - `NOT_STARTED`: `append` or `flush` before `start()` has resolved.
 * - `PACKS_SET_ASIDE`: packs were given up since the last flush; the message names them. They are kept where they are.
 * - `RECORD_INVALID`: a record that does not fit its schema, or a capture id a second time.
 * - `RECORD_TOO_LARGE`: a payload over `spool.maxRecordBytes`, or a record that fits no pack.
 * - `SPOOL_FULL`: no room in the spool, and waiting is off or would not help.
 * - `SPOOL_IN_USE`: another live service owns the spool directory.
 * - `SPOOL_UNSUITABLE`: a directory that cannot be a spool: shared file system, inside another spool, of another catalog.
 * - `SPOOL_UNWRITABLE`: the directory or the disk refuses; `cause` has the system's error.
 * - `STOPPED`: the service was stopped.
 */
export type CaptureErrorCode =
  | "ADMISSION_TIMEOUT"
  | "CONFIG_INVALID"
  | "NOT_STARTED"
  | "PACKS_SET_ASIDE"
  | "RECORD_INVALID"
  | "RECORD_TOO_LARGE"
  | "SPOOL_FULL"
  | "SPOOL_IN_USE"
  | "SPOOL_UNSUITABLE"
  | "SPOOL_UNWRITABLE"
  | "STOPPED";

/**
 * An error of the capture service. Branch on `code`; the message says what was wrong, with the value, and what to do.
 * `cause` is the error underneath, where there is one.
 */
export class CaptureError extends Error {
  override readonly name = "CaptureError";
  readonly code: CaptureErrorCode;

  constructor(code: CaptureErrorCode, message: string, options?: { readonly cause?: unknown }) {
    super(`[${code}] ${message}`, options);
    this.code = code;
  }
}

/** The stable code of any error: its own `code`, else undefined. Never looks at the class: two copies may be loaded. */
export function codeOf(error: unknown): string | undefined {
  if (typeof error !== "object" || error === null || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}

/** One line about any error, at most `limit` characters, for status fields and messages. */
export function describe(error: unknown, limit = 512): string {
  const text = error instanceof Error ? error.message : String(error);
  const line = text.replaceAll(/\s+/g, " ").trim();
  return line.length <= limit ? line : `${line.slice(0, limit - 1)}…`;
}
