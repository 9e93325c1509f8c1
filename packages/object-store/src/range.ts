import { ObjectStoreError } from "./errors.js";
import type { ByteRange } from "./store.js";

/**
 * The bytes that a range means in an object of `size` bytes; without a range, the whole object.
 *
 * `INVALID_RANGE` when `offset`, `length` or `suffix` is not a whole number, `offset` is negative, `length` or `suffix` is under
 * 1 (HTTP cannot ask for nothing), or the range has no byte inside the object: `offset >= size`, or any range of an empty
 * object. A range that ends past the object is cut at its end; a `suffix` above `size` is the whole object.
 */
export function resolveRange(range: ByteRange | undefined, size: number): { offset: number; length: number } {
  if (range === undefined) return { offset: 0, length: size };
  checkRange(range);
  const offset = "suffix" in range ? Math.max(0, size - range.suffix) : range.offset;
  const length = "suffix" in range ? range.suffix : range.length;
  if (offset >= size) {
    throw new ObjectStoreError("INVALID_RANGE", `${describe(range)} has no byte in an object of ${size} bytes`);
  }
  return { offset, length: Math.min(length, size - offset) };
}

/** The part of {@link resolveRange} that needs no size: refuses a malformed range with `INVALID_RANGE`. */
export function checkRange(range: ByteRange): void {
  const whole = (n: number, least: number) => Number.isSafeInteger(n) && n >= least;
  const good = "suffix" in range ? whole(range.suffix, 1) : whole(range.offset, 0) && whole(range.length, 1);
  if (!good) {
    const rule = "offset must be a whole number of at least 0, length and suffix of at least 1";
    throw new ObjectStoreError("INVALID_RANGE", `${describe(range)} is malformed; ${rule}`);
  }
}

/** Refuses a listing's `limit` that is not a whole number of at least 1, with `INVALID_RANGE`; gives Infinity for absent. */
export function checkLimit(limit: number | undefined): number {
  if (limit === undefined) return Infinity;
  if (!Number.isSafeInteger(limit) || limit < 1) {
    throw new ObjectStoreError(
      "INVALID_RANGE",
      `a listing's limit of ${limit} is malformed; give a whole number of at least 1, or none`,
    );
  }
  return limit;
}

function describe(range: ByteRange): string {
  if ("suffix" in range) return `a range of the last ${range.suffix} bytes`;
  return `a range of ${range.length} bytes from offset ${range.offset}`;
}
