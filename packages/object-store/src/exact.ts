import { ObjectStoreError } from "./errors.js";
import type { Call, ObjectStore } from "./store.js";

/**
 * Exactly `length` bytes from `offset`, or an error: `INVALID_RANGE` when the object ends before the range does, `CORRUPT` when the
 * store answered with another number of bytes than the object has there. 0 bytes are answered without asking the store.
 * All other errors are those of `get`.
 *
 * Does not check the bytes themselves: a store that answers with a shifted range of the right length is found by
 * the checksum of what was read.
 */
export async function getExactly(
  store: ObjectStore,
  key: string,
  range: { readonly offset: number; readonly length: number },
  o: Call & { readonly ifMatch?: string },
): Promise<Uint8Array> {
  if (range.length === 0) return new Uint8Array(0);
  const { bytes, info } = await store.get(key, { ...o, range: { offset: range.offset, length: range.length } });
  if (bytes.byteLength === range.length) return bytes;
  const what = `${range.length} bytes from offset ${range.offset} of ${JSON.stringify(key)}`;
  if (info.size < range.offset + range.length) {
    throw new ObjectStoreError("INVALID_RANGE", `${what} were wanted, and the object has only ${info.size} bytes`);
  }
  throw new ObjectStoreError(
    "CORRUPT",
    `${what} were wanted and ${bytes.byteLength} came, though the object has ${info.size}; store ${store.storeId} does not answer ranges as asked`,
  );
}
