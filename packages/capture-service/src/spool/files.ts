import { open, link, lstat, mkdir, readdir, rename, stat, statfs, unlink, type FileHandle } from "node:fs/promises";
import { dirname, join } from "node:path";
import { codeOf } from "../errors.js";
import { poolGate, type Gate } from "./gate.js";

/** One open file. Reads and writes name their position and may move fewer bytes than asked, as the system's calls may. */
export interface SpoolFile {
  write(bytes: Uint8Array, offset: number, length: number, position: number): Promise<number>;
  read(into: Uint8Array, offset: number, length: number, position: number): Promise<number>;
  datasync(): Promise<void>;
  truncate(length: number): Promise<void>;
  size(): Promise<number>;
  close(): Promise<void>;
}

/** What a directory holds under one name. */
export type Entry = { readonly name: string; readonly bytes: number; readonly isFile: boolean };

/** Everything that the spool asks of a file system; tests put one in its place that fails on demand. */
export interface SpoolFiles {
  open(path: string, mode: "create" | "read" | "update"): Promise<SpoolFile>;
  list(directory: string): Promise<Entry[]>;
  link(from: string, to: string): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  unlink(path: string): Promise<void>;
  makeDirectory(path: string): Promise<void>;
  /** fsync of the directory itself, which makes the names in it durable. */
  syncDirectory(path: string): Promise<void>;
  /** The system's number of the kind of file system under `path`. */
  fileSystemType(path: string): Promise<number>;
}

const flags = { create: "wx+", read: "r", update: "r+" } as const;

function spoolFile(handle: FileHandle, gate: Gate): SpoolFile {
  return {
    write: (bytes, offset, length, position) =>
      gate.run(async () => (await handle.write(bytes, offset, length, position)).bytesWritten),
    read: (into, offset, length, position) =>
      gate.run(async () => (await handle.read(into, offset, length, position)).bytesRead),
    datasync: () => gate.run(() => handle.datasync()),
    truncate: (length) => gate.run(() => handle.truncate(length)),
    size: () => gate.run(async () => (await handle.stat()).size),
    close: () => gate.run(() => handle.close()),
  };
}

/** mkdir -p. Node's own `recursive` turns in a circle for ever where a parent is there and refuses with ENOENT, as /proc does. */
async function makeDirectories(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    const code = codeOf(error);
    if (code === "EEXIST" && (await stat(path)).isDirectory()) return;
    if (code !== "ENOENT" || dirname(path) === path) throw error;
    await makeDirectories(dirname(path));
    await mkdir(path, { mode: 0o700 }).catch(async (second: unknown) => {
      if (codeOf(second) !== "EEXIST" || !(await stat(path)).isDirectory()) throw second;
    });
  }
}

async function syncDirectory(path: string): Promise<void> {
  const handle = await open(path, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** The real file system, every call through `gate`. */
export function nodeFiles(gate: Gate = poolGate): SpoolFiles {
  return {
    open: async (path, mode) => spoolFile(await gate.run(() => open(path, flags[mode], 0o600)), gate),
    list: async (directory) => {
      const entries: Entry[] = [];
      for (const name of await gate.run(() => readdir(directory))) {
        try {
          const found = await gate.run(() => lstat(join(directory, name)));
          entries.push({ name, bytes: found.size, isFile: found.isFile() });
        } catch (error) {
          // Gone between the two calls: a socket of a rival that withdrew.
          if (codeOf(error) !== "ENOENT") throw error;
        }
      }
      return entries;
    },
    link: (from, to) => gate.run(() => link(from, to)),
    rename: (from, to) => gate.run(() => rename(from, to)),
    unlink: (path) => gate.run(() => unlink(path)),
    makeDirectory: (path) => gate.run(() => makeDirectories(path)),
    syncDirectory: (path) => gate.run(() => syncDirectory(path)),
    fileSystemType: (path) => gate.run(async () => (await statfs(path)).type),
  };
}

/** Writes all of `bytes` at `position`. The system may take fewer than asked without an error (a nearly full disk does). */
export async function writeAll(file: SpoolFile, bytes: Uint8Array, position: number): Promise<void> {
  let done = 0;
  while (done < bytes.byteLength) {
    const written = await file.write(bytes, done, bytes.byteLength - done, position + done);
    if (written <= 0) {
      throw Object.assign(new Error(`a write of ${bytes.byteLength - done} bytes wrote none`), { code: "EIO" });
    }
    done += written;
  }
}

/** Reads `length` bytes at `offset`, or fewer where the file ends. */
export async function readUpTo(file: SpoolFile, offset: number, length: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(length);
  let done = 0;
  while (done < length) {
    const read = await file.read(bytes, done, length - done, offset + done);
    if (read === 0) break;
    done += read;
  }
  return done === length ? bytes : bytes.subarray(0, done);
}
