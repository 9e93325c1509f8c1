import { ObjectStoreError } from "./errors.js";

/** The longest key of the contract, in bytes of UTF-8 (the limit of S3 and GCS). A store may declare less. */
export const maxKeyBytes = 1024;

// Control characters break the XML in which S3 lists keys, so that one such key makes a whole bucket unlistable; U+FFFE and
// U+FFFF are not XML characters either; an unpaired surrogate has no UTF-8, so two keys would become one.
const refused = /[\p{Cc}\p{Surrogate}\ufffe\uffff]/u;
const utf8 = new TextEncoder();

/**
 * Refuses a key that would not come back from every store exactly as it was put: `INVALID_KEY` when it is empty, longer than
 * `limit` bytes of UTF-8 (default 1024), or holds a control character (U+0000–U+001F, U+007F–U+009F), an unpaired surrogate,
 * U+FFFE or U+FFFF.
 *
 * Everything else is a key and is kept as it is: spaces at either end, `+`, `%`, `#`, `?`, `<&>`, quotes, leading, trailing
 * and doubled slashes, `.` and `..`. Nothing is normalised: `é` as one code point and as two are two keys, and so are `A` and
 * `a`.
 */
export function checkKey(key: string, limit: number = maxKeyBytes): void {
  if (key === "") throw new ObjectStoreError("INVALID_KEY", "a key is empty; give at least one character");
  checkKeyPart("key", key, limit);
}

/** Refuses a listing prefix that no key can start with: the rules of {@link checkKey}, but empty is allowed. */
export function checkPrefix(prefix: string, limit: number = maxKeyBytes): void {
  checkKeyPart("prefix", prefix, limit);
}

function checkKeyPart(what: string, text: string, limit: number): void {
  if (typeof text !== "string") {
    throw new ObjectStoreError("INVALID_KEY", `a ${what} must be a string, not ${typeof text}`);
  }
  const bad = refused.exec(text);
  if (bad !== null) {
    const codePoint = (bad[0].codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
    throw new ObjectStoreError(
      "INVALID_KEY",
      `the ${what} ${shown(text)} holds U+${codePoint} at position ${bad.index}, which not every store can list; leave it out or encode it`,
    );
  }
  // A UTF-16 unit is at most 3 bytes of UTF-8, so short keys need no encoding to be known as short enough.
  if (text.length * 3 <= limit) return;
  const bytes = utf8.encode(text).length;
  if (bytes > limit) {
    throw new ObjectStoreError(
      "INVALID_KEY",
      `the ${what} ${shown(text)} is ${bytes} bytes of UTF-8, over the limit of ${limit}; shorten it`,
    );
  }
}

function shown(text: string): string {
  const json = JSON.stringify(text);
  return json.length <= 120 ? json : `${json.slice(0, 119)}…`;
}

/**
 * Orders keys by the bytes of their UTF-8, as every listing does: negative, zero or positive. `<` on strings differs from it,
 * since UTF-16 puts everything above U+FFFF before U+E000.
 */
export function compareKeys(a: string, b: string): number {
  const shorter = Math.min(a.length, b.length);
  for (let i = 0; i < shorter; i++) {
    const x = a.charCodeAt(i);
    const y = b.charCodeAt(i);
    if (x !== y) return byteRank(x) - byteRank(y);
  }
  return a.length - b.length;
}

/** Moves the surrogates above all other UTF-16 units, which makes unit order the same as byte order. */
function byteRank(unit: number): number {
  if (unit < 0xd800) return unit;
  return unit < 0xe000 ? unit + 0x2000 : unit - 0x800;
}
