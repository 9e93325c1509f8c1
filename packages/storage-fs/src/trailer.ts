/**
 * What the store keeps about an object, at the end of the object's own file: one file, so that bytes and metadata appear, are
 * replaced and disappear together. The bytes start at offset 0, so a stored pack is still recognised by its first bytes.
 *
 *     bytes of the object | JSON in UTF-8 | u64 size of the object | u32 size of the JSON | u32 CRC-32 | "holdfast-object1"
 *
 * Numbers are little-endian. The CRC is over the JSON and the two sizes. The JSON is
 * `{ key, etag, metadata, contentType? }`; the key shows a file that was moved or copied to another name.
 */
import { crc32 } from "node:zlib";
import { ObjectStoreError } from "@holdfast/object-store";

const magic = Buffer.from("holdfast-object1");
const endBytes = 32;

/**
 * Reading this much from the end of a file always has the whole trailer: a key of 1024 and metadata of 2048 bytes, each byte of
 * them written as an escape of two, are 6144.
 */
export const trailerBytesMax = 8192;

/** What the trailer says. */
export type Trailer = {
  readonly key: string;
  readonly etag: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly contentType?: string;
};

/** The bytes that follow an object of `size` bytes. `INVALID_METADATA` when key, metadata and content type are too much for it. */
export function encodeTrailer(trailer: Trailer, size: number): Uint8Array {
  const json = Buffer.from(JSON.stringify(trailer));
  if (json.length + endBytes > trailerBytesMax) {
    const rule = `key, metadata and content type together take ${json.length} bytes as JSON, over the limit of ${trailerBytesMax - endBytes}`;
    throw new ObjectStoreError("INVALID_METADATA", `${rule}; shorten the content type or the metadata`);
  }
  const end = Buffer.alloc(endBytes);
  end.writeBigUInt64LE(BigInt(size), 0);
  end.writeUInt32LE(json.length, 8);
  end.writeUInt32LE(crc32(end.subarray(0, 12), crc32(json)), 12);
  magic.copy(end, 16);
  return Buffer.concat([json, end]);
}

/**
 * Reads a trailer out of the last bytes of a file of `fileSize` bytes, or says in words what is wrong with it. Trusts
 * nothing: the sizes must add up, the CRC must fit (anybody can compute one), the JSON must have the members of a
 * {@link Trailer}, and it must be about `key`.
 */
export function decodeTrailer(
  tail: Buffer,
  fileSize: number,
  key: string,
): { size: number; trailer: Trailer } | string {
  if (tail.length < endBytes || !tail.subarray(-16).equals(magic)) return "it does not end as the store's files do";
  const end = tail.subarray(-endBytes);
  const size = Number(end.readBigUInt64LE(0));
  const jsonBytes = end.readUInt32LE(8);
  if (size + jsonBytes + endBytes !== fileSize || jsonBytes + endBytes > tail.length) {
    return `its ${fileSize} bytes are not the ${size} + ${jsonBytes} + ${endBytes} that its end tells`;
  }
  const json = tail.subarray(-endBytes - jsonBytes, -endBytes);
  if (crc32(end.subarray(0, 12), crc32(json)) !== end.readUInt32LE(12)) return "the checksum of its end is wrong";
  const trailer = parseTrailer(json.toString("utf8"));
  if (trailer === null) return "its end does not tell key, etag and metadata";
  return trailer.key === key ? { size, trailer } : `it is the file of the key ${JSON.stringify(trailer.key)}`;
}

function parseTrailer(json: string): Trailer | null {
  let parsed: unknown;
  try {
    parsed = JSON.parse(json);
  } catch {
    return null;
  }
  const { key, etag, metadata } = (parsed ?? {}) as { readonly [K in keyof Trailer]?: unknown };
  if (typeof key !== "string" || typeof etag !== "string" || typeof metadata !== "object" || metadata === null)
    return null;
  return Object.values(metadata).every((value) => typeof value === "string") ? (parsed as Trailer) : null;
}
