/** The stable codes of {@link PackError}; callers branch on these, never on the message. */
export type PackErrorCode =
  | "PACK_TRUNCATED"
  | "PACK_CORRUPT"
  | "PACK_VERSION_UNSUPPORTED"
  | "UNSUPPORTED_CODEC"
  | "SCHEMA_INVALID"
  | "RECORD_INVALID"
  | "RECORD_TOO_LARGE"
  | "PACK_FULL"
  | "PACK_SEALED"
  | "CONFIG_INVALID";

/**
 * Everything that this package refuses. `code` is stable; `offset` (bytes from the start of the pack) and `field` are
 * set where they are known. An error that a {@link ByteSource} throws is never turned into one of these: a source that
 * does not answer says nothing about the pack.
 */
export class PackError extends Error {
  readonly code: PackErrorCode;
  /** Where in the pack the trouble begins, in bytes from its start. */
  readonly offset?: number;
  /** The record field that was refused. */
  readonly field?: string;

  constructor(code: PackErrorCode, message: string, at: { offset?: number; field?: string; cause?: unknown } = {}) {
    super(`[${code}] ${message}`, at.cause === undefined ? undefined : { cause: at.cause });
    this.name = "PackError";
    this.code = code;
    if (at.offset !== undefined) this.offset = at.offset;
    if (at.field !== undefined) this.field = at.field;
  }
}

/** A value as an error message shows it: its type, and at most 60 characters of it. */
export function shown(value: unknown): string {
  const clip = (text: string): string => (text.length > 60 ? `${text.slice(0, 57)}...` : text);
  if (typeof value === "string") return `string ${clip(JSON.stringify(value))}`;
  if (typeof value === "bigint") return `bigint ${clip(value.toString())}n`;
  if (typeof value === "number" || typeof value === "boolean") return `${typeof value} ${String(value)}`;
  if (value === null) return "null";
  if (Array.isArray(value)) return `array of ${value.length}`;
  if (ArrayBuffer.isView(value)) return `view of ${value.byteLength} bytes`;
  return typeof value;
}
