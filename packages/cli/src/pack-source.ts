import { open } from "node:fs/promises";
import { type Clock, DeadlineExceededError } from "@holdfast/deadline-http";
import { type ObjectStore, onAbort } from "@holdfast/object-store";
import type { ByteSource } from "@holdfast/pack-format";
import { CliError, codeOf, reasonOf } from "./errors.js";

/** A pack to be read piece by piece, and how to let go of it. */
export interface OpenedPack {
  readonly source: ByteSource;
  close(): Promise<void>;
}

/**
 * A pack in a local file, or null where there is no such file.
 * @throws CliError `FILE_UNREADABLE` for a file that is there and cannot be read.
 */
export async function openPackFile(path: string): Promise<OpenedPack | null> {
  const file = await open(path, "r").catch((error: unknown) => {
    if (codeOf(error) === "ENOENT") return null;
    throw new CliError("FILE_UNREADABLE", `cannot read ${path}: ${reasonOf(error)}`, error);
  });
  if (file === null) return null;
  const stat = await file.stat();
  if (!stat.isFile()) {
    await file.close();
    throw new CliError("FILE_UNREADABLE", `${path} is not a file`);
  }
  const read = async (offset: number, length: number): Promise<Uint8Array> => {
    const buffer = new Uint8Array(length);
    let done = 0;
    while (done < length) {
      const { bytesRead } = await file.read(buffer, done, length - done, offset + done);
      if (bytesRead === 0) break; // cut off while we read: the pack format says what is missing
      done += bytesRead;
    }
    return buffer.subarray(0, done);
  };
  const size = objectSize(await read(Math.max(0, stat.size - 32), Math.min(32, stat.size)), stat.size) ?? stat.size;
  return { source: { size, read }, close: () => file.close() };
}

/**
 * A directory store keeps an object's metadata behind its bytes; the last 32 bytes of such a file begin with the sizes of both
 * and end in a magic. So a file of a store can be given as it is. Null for any other file, and where the sizes do not add up.
 */
function objectSize(end: Uint8Array, fileSize: number): number | null {
  const bytes = Buffer.from(end.buffer, end.byteOffset, end.byteLength);
  if (bytes.length < 32 || bytes.toString("latin1", 16) !== "holdfast-object1") return null;
  const size = Number(bytes.readBigUInt64LE(0));
  return size + bytes.readUInt32LE(8) + 32 === fileSize ? size : null;
}

/** What bounds each call to the store. */
export interface CallBound {
  readonly clock: Clock;
  readonly requestTimeoutMs: number;
  readonly signal: AbortSignal;
}

/**
 * A pack in an object store, or null where there is no such key.
 * @throws DeadlineExceededError `DEADLINE_EXCEEDED` for a store that does not answer within `requestTimeoutMs`; what the store throws.
 */
export async function openPackObject(store: ObjectStore, key: string, o: CallBound): Promise<OpenedPack | null> {
  const info = await bounded(o, (signal) => store.head(key, { signal }));
  if (info === null) return null;
  const read = async (offset: number, length: number): Promise<Uint8Array> => {
    if (length === 0) return new Uint8Array(0);
    const range = { offset, length };
    return (await bounded(o, (signal) => store.get(key, { range, ifMatch: info.etag, signal }))).bytes;
  };
  return { source: { size: info.size, read }, close: () => Promise.resolve() };
}

async function bounded<T>(o: CallBound, call: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const { clock, requestTimeoutMs: ms } = o;
  const end = new AbortController();
  const bound = { name: "object-store call", ms, knobs: { "catalog.requestTimeoutMs": ms } };
  const timer = clock.setTimer(ms, () =>
    end.abort(new DeadlineExceededError(bound, { outcome: "unknown", note: "the store did not answer" })),
  );
  const forget = onAbort(o.signal, () => end.abort(o.signal.reason));
  try {
    return await call(end.signal);
  } finally {
    timer.cancel();
    forget();
  }
}
