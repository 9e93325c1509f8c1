import { dirname } from "node:path";
import { ObjectStoreError, resolveRange, type ByteRange, type ObjectInfo } from "@holdfast/object-store";
import type { FileHandle } from "node:fs/promises";
import { folderExists, isAbsent, readFully, withFile, type Io } from "./file-ops.js";
import { decodeTrailer, trailerBytesMax } from "./trailer.js";

/** What the file of a key says about the object; `null` when there is none. `CORRUPT` when it is not a file of the store. */
export async function readInfo(io: Io, path: string, key: string, signal: AbortSignal): Promise<ObjectInfo | null> {
  if (!(await folderExists(io, dirname(path), signal))) return null;
  return infoInFolder(io, path, key, signal);
}

/** {@link readInfo} without its look at the folder, for who has just walked through it. */
export async function infoInFolder(io: Io, path: string, key: string, signal: AbortSignal): Promise<ObjectInfo | null> {
  return withObject(io, path, key, signal, async (_, info) => Promise.resolve(info));
}

/** The bytes of a range and what they are of; `null` when there is no file. */
export async function readObject(
  io: Io,
  path: string,
  key: string,
  o: { readonly range?: ByteRange; readonly ifMatch?: string; readonly signal: AbortSignal },
): Promise<{ bytes: Uint8Array; info: ObjectInfo } | null> {
  if (!(await folderExists(io, dirname(path), o.signal))) return null;
  return withObject(io, path, key, o.signal, async (file, info) => {
    if (o.ifMatch !== undefined && o.ifMatch !== info.etag) {
      const differs = `the object at ${JSON.stringify(key)} has etag ${info.etag}, not ${o.ifMatch}`;
      throw new ObjectStoreError("PRECONDITION_FAILED", `${differs}; it was replaced since`);
    }
    const { offset, length } = resolveRange(o.range, info.size);
    if (length > 2 ** 31 - 1) {
      throw new ObjectStoreError(
        "TOO_LARGE",
        `${length} bytes do not go into one array; ask for ranges of at most 1 GiB`,
      );
    }
    const bytes = new Uint8Array(length);
    await readFully(io, path, file, bytes, offset, o.signal);
    return { bytes, info };
  });
}

/** Runs `use` on the open file of an object; an open file stays the same object even when the key is overwritten meanwhile. */
async function withObject<T>(
  io: Io,
  path: string,
  key: string,
  signal: AbortSignal,
  use: (file: FileHandle, info: ObjectInfo) => Promise<T>,
): Promise<T | null> {
  try {
    return await withFile(io, path, signal, async (file, fileSize, modifiedAtMs) => {
      const tail = Buffer.alloc(Math.min(fileSize, trailerBytesMax));
      await readFully(io, path, file, tail, fileSize - tail.length, signal);
      const decoded = decodeTrailer(tail, fileSize, key);
      if (typeof decoded === "string") {
        throw new ObjectStoreError("CORRUPT", `${path} is damaged or foreign: ${decoded}; move it away, or restore it`);
      }
      const { etag, metadata } = decoded.trailer;
      return use(
        file,
        Object.freeze({ key, size: decoded.size, etag, metadata: Object.freeze(metadata), modifiedAtMs }),
      );
    });
  } catch (error) {
    if (isAbsent(error)) return null;
    throw error;
  }
}
