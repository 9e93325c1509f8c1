import { constants } from "node:fs";
import { open, realpath, unlink } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { createLimiter, ObjectStoreError } from "@holdfast/object-store";

/**
 * Runs one file operation. `op` and `path` name it: they are what errors say and what a test can record or make fail. A failure of
 * the operation is an `ObjectStoreError` whose cause is the system's error.
 */
export type Io = <T>(op: string, path: string, work: () => Promise<T>, signal: AbortSignal) => Promise<T>;

/** For what must be done whatever the caller's signal says: closing, and making durable what is already visible. */
export const never: AbortSignal = new AbortController().signal;

// libuv has four threads for files, and name resolution needs them too. Two of ours at most, in the whole process, so that a file
// system that hangs cannot stop anybody else's network call.
const places = createLimiter(2);

/** The {@link Io} of the machine: at most two operations in flight in this process. */
export const systemIo: Io = async (op, path, work, signal) =>
  places(async () => {
    try {
      return await work();
    } catch (error) {
      throw storeError(op, path, error);
    }
  }, signal);

/** The system's code (`ENOENT`, …) behind an error of an {@link Io}, or `undefined`. */
export function errno(error: unknown): string | undefined {
  const cause = error instanceof ObjectStoreError ? error.cause : undefined;
  return cause instanceof Error && "code" in cause && typeof cause.code === "string" ? cause.code : undefined;
}

/** Whether an error says that the path is not there. */
export const isAbsent = (error: unknown): boolean => errno(error) === "ENOENT";

const noLinks = new Set(["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS"]);

// Answers by which the kernel refuses a link or a rename before it does anything. Others (EIO, a network file system that timed out)
// leave open whether it happened.
const refusals = new Set(
  "EACCES EPERM EROFS ENOSPC EDQUOT ENOENT ENOTDIR EISDIR ENOTEMPTY ELOOP ENAMETOOLONG EMLINK EXDEV EINVAL".split(" "),
);

/** Whether a failed link or rename has certainly changed nothing. */
export const isRefusal = (error: unknown): boolean => {
  const code = errno(error) ?? "";
  return refusals.has(code) || noLinks.has(code);
};

/** The one place where a system's error becomes one of the contract. */
function storeError(op: string, path: string, error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof ObjectStoreError) return error;
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  const what = `${op} ${path} failed (${code === "" ? error.message : code})`;
  const as = (ours: ObjectStoreError["code"], advice: string) =>
    new ObjectStoreError(ours, `${what}: ${advice}`, { cause: error });
  if (op === "link" && noLinks.has(code)) {
    return as(
      "UNSUPPORTED",
      "the file system has no hard links, which an atomic create needs; use a directory on another one",
    );
  }
  switch (code) {
    case "EACCES":
    case "EPERM": {
      const uid = process.getuid?.() ?? "of this process";
      return as(
        "ACCESS_DENIED",
        `give user ${uid} the right to read and write the store's directory and all in it, or use another directory`,
      );
    }
    case "EROFS":
      return as("ACCESS_DENIED", "the file system is mounted read-only; mount it writable or use another directory");
    case "ENOSPC":
    case "EDQUOT":
      return as("UNAVAILABLE", "no space is left for this user on the file system; free some");
    case "EFBIG":
      return as("TOO_LARGE", "the file system or the process limit (ulimit -f) takes no file of this size");
    case "ENAMETOOLONG":
      return as("INVALID_KEY", "the path is too long for the file system; use a shorter directory or a shorter key");
    case "ELOOP":
      return as("CORRUPT", "a symbolic link stands in the store, and the store follows none; remove it");
    case "EEXIST":
    case "EISDIR":
    case "ENOTDIR":
      return as("CORRUPT", "a folder and a file are mixed up in the store; move away what the store did not put there");
    default:
      return as("UNAVAILABLE", "the file system could not do it now");
  }
}

/** Where an open file or folder really is, and a path that stays the same thing when names change meanwhile. */
async function placeOf(file: FileHandle, path: string): Promise<{ readonly real: string; readonly pinned: string }> {
  // Linux names what a descriptor has open, and a path through that name cannot be led elsewhere by a link made after the look. Where
  // there is no such name, the look and the use are two steps: who may write in the store can then lead us astray in between.
  if (process.platform === "linux") {
    const pinned = `/proc/self/fd/${file.fd}`;
    const real = await realpath(pinned).catch(() => null);
    if (real !== null) return { real, pinned };
  }
  return { real: await realpath(path), pinned: path };
}

/** The pinned path of what is open; `CORRUPT` when it is not where its path says, which only a symbolic link can do. */
async function mustBeAt(io: Io, path: string, file: FileHandle, signal: AbortSignal): Promise<string> {
  const { real, pinned } = await io("realpath", path, () => placeOf(file, path), signal);
  if (real !== path) throw ledAway(path, real);
  return pinned;
}

function ledAway(path: string, real: string): ObjectStoreError {
  const what = `the way to ${path} goes through a symbolic link, to ${real}`;
  return new ObjectStoreError("CORRUPT", `${what}; the store follows none, remove it`);
}

/** A folder that is held open: names in it through `at` are in this folder, whatever becomes of its own name. */
export type OpenFolder = { readonly at: string; sync(): Promise<void> };

/** Opens a folder, runs `use`, closes it whatever happens. `CORRUPT` when the way to it goes through a symbolic link. */
export async function withFolder<T>(
  io: Io,
  path: string,
  signal: AbortSignal,
  use: (folder: OpenFolder) => Promise<T>,
): Promise<T> {
  const folder = await io("open", path, () => open(path, constants.O_RDONLY | constants.O_DIRECTORY), signal);
  try {
    const at = await mustBeAt(io, path, folder, signal);
    return await use({ at, sync: () => io("fsync", path, () => folder.sync(), never) });
  } finally {
    await io("close", path, () => folder.close(), never);
  }
}

/** Makes a file that was not there, below folders that are no links; what is made elsewhere is removed again. */
export async function makeFile(io: Io, path: string, signal: AbortSignal): Promise<FileHandle> {
  // O_EXCL: whoever else has this name, we do not write into their file.
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL;
  const file = await io("open", path, () => open(path, flags, 0o666), signal);
  try {
    await mustBeAt(io, path, file, never);
  } catch (error) {
    await io("close", path, () => file.close(), never);
    await io("unlink", path, () => unlink(path), never).catch(() => undefined);
    throw error;
  }
  return file;
}

/** Opens a regular file, runs `use`, closes it whatever happens. Symbolic links and everything else that is no file: `CORRUPT`. */
export async function withFile<T>(
  io: Io,
  path: string,
  signal: AbortSignal,
  use: (file: FileHandle, fileSize: number, modifiedAtMs: number) => Promise<T>,
): Promise<T> {
  // O_NONBLOCK: opening a pipe that somebody put here must fail below instead of holding a thread for ever.
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const file = await io("open", path, () => open(path, flags), signal);
  try {
    const stat = await io("stat", path, () => file.stat(), signal);
    if (!stat.isFile()) {
      throw new ObjectStoreError(
        "CORRUPT",
        `${path} is not a regular file; move away what the store did not put there`,
      );
    }
    await mustBeAt(io, path, file, signal);
    return await use(file, stat.size, Math.floor(stat.mtimeMs));
  } finally {
    await io("close", path, () => file.close(), never);
  }
}

/** Fills `into` from `offset`, however many reads it takes; `CORRUPT` when the file ends before. */
export async function readFully(
  io: Io,
  path: string,
  file: FileHandle,
  into: Uint8Array,
  offset: number,
  signal: AbortSignal,
): Promise<void> {
  // In steps, so that an abort is noticed between them and one read does not hold a thread for long.
  const step = 4 << 20;
  for (let at = 0; at < into.byteLength;) {
    const length = Math.min(step, into.byteLength - at);
    const { bytesRead } = await io("read", path, () => file.read(into, at, length, offset + at), signal);
    if (bytesRead === 0)
      throw new ObjectStoreError("CORRUPT", `${path} ends before offset ${offset + into.byteLength}`);
    at += bytesRead;
  }
}

/** Makes the entries of a folder durable. */
export async function syncFolder(io: Io, path: string): Promise<void> {
  const folder = await io("open", path, () => open(path, constants.O_RDONLY | constants.O_DIRECTORY), never);
  try {
    await io("fsync", path, () => folder.sync(), never);
  } finally {
    await io("close", path, () => folder.close(), never);
  }
}

/** Whether a folder exists; `CORRUPT` when the way to it below the store's root goes through a symbolic link. */
export async function folderExists(io: Io, path: string, signal: AbortSignal): Promise<boolean> {
  try {
    const real = await io("realpath", path, () => realpath(path), signal);
    if (real === path) return true;
    throw ledAway(path, real);
  } catch (error) {
    if (isAbsent(error)) return false;
    throw error;
  }
}
