import { createHash } from "node:crypto";
import { ReaderError } from "./reader-error.js";

const cursorVersion = 1;
const greatestLength = 8192;

/** Where a search stopped: the key values of the last row that was looked at. */
export type CursorKey = readonly (string | number | boolean)[];

/** Stands for everything of a query that a cursor must not be used with another of. */
export function queryFingerprint(o: {
  catalog: string;
  version: bigint;
  where: Readonly<Record<string, unknown>>;
  order: readonly string[];
}): string {
  const where = Object.entries(o.where)
    .filter(([, condition]) => condition !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1));
  const text = JSON.stringify([o.catalog, o.version, where, o.order], (_key, value: unknown) =>
    typeof value === "bigint" ? `${value.toString()}n` : value,
  );
  return createHash("sha256").update(text).digest("base64url").slice(0, 22);
}

/** An opaque, URL-safe text. */
export function encodeCursor(fingerprint: string, key: CursorKey): string {
  return Buffer.from(JSON.stringify({ v: cursorVersion, q: fingerprint, k: key })).toString("base64url");
}

/** CURSOR_INVALID for a damaged cursor, and for one of another query or snapshot. */
export function decodeCursor(cursor: string, fingerprint: string, keys: number): CursorKey {
  const parsed = parse(cursor);
  if (parsed === null) throw new ReaderError("CURSOR_INVALID", "the cursor is damaged; begin the search without one");
  if (parsed.q !== fingerprint || parsed.k.length !== keys) {
    throw new ReaderError(
      "CURSOR_INVALID",
      "the cursor belongs to another search: where, orderBy and the snapshot's version must be those it came from",
    );
  }
  return parsed.k;
}

function parse(cursor: string): { q: string; k: CursorKey } | null {
  if (cursor.length > greatestLength) return null;
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(cursor, "base64url").toString("utf8"));
  } catch {
    return null;
  }
  if (typeof value !== "object" || value === null || !("v" in value) || value.v !== cursorVersion) return null;
  if (!("q" in value) || typeof value.q !== "string" || !("k" in value) || !Array.isArray(value.k)) return null;
  const key = value.k as readonly unknown[];
  const plain = (part: unknown): part is string | number | boolean =>
    typeof part === "string" || typeof part === "number" || typeof part === "boolean";
  return key.every(plain) ? { q: value.q, k: key } : null;
}
