import type { Dirent } from "node:fs";
import { opendir } from "node:fs/promises";
import { join } from "node:path";
import { compareKeys, errorCode, type ObjectInfo } from "@holdfast/object-store";
import { folderExists, isAbsent, never, type Io } from "./file-ops.js";
import { decodePart, folderPath, folderPrefix, objectPath, parseName } from "./names.js";
import { infoInFolder } from "./read.js";
import { sortedMerge } from "./sorted-merge.js";

export type Listing = { readonly prefix: string; readonly startAfter?: string; readonly signal: AbortSignal };
/** An object's key and file, or a folder's prefix (ending in `/`) and path. */
type Entry = { readonly key: string; readonly path: string; readonly folder: boolean };

/** How many objects are looked at ahead of the consumer, itself included. */
const window = 2;

/**
 * The infos of at most `limit` objects in key order. Reads the names of the folders on the way, and the files of no more objects than
 * it yields and, at most, one that it looked at ahead. An object that disappears meanwhile, or whose file is damaged or
 * foreign, is left out.
 */
export async function* listInfos(
  io: Io,
  root: string,
  o: Listing,
  limit: number,
): AsyncGenerator<ObjectInfo, void, undefined> {
  const base = folderPrefix(o.prefix);
  const found = walk(io, folderPath(root, base), { base, start: o.prefix }, root, o);
  const ahead: Promise<ObjectInfo | null>[] = [];
  let exhausted = false;
  for (let left = limit; left > 0;) {
    while (!exhausted && ahead.length < Math.min(window, left)) {
      const next = await found.next();
      if (next.done === true) exhausted = true;
      else ahead.push(listedInfo(io, next.value, o.signal));
    }
    const first = ahead.shift();
    if (first === undefined) return;
    const info = await first;
    if (info === null) continue;
    yield info;
    left--;
  }
}

function listedInfo(io: Io, entry: Entry, signal: AbortSignal): Promise<ObjectInfo | null> {
  const info = infoInFolder(io, entry.path, entry.key, signal).then(
    (info) => info && { ...info, metadata: {} },
    (error: unknown) => {
      // One file that is not ours, or damaged, must not hide all the others; reading its key says what is wrong with it.
      if (errorCode(error) === "CORRUPT") return null;
      throw error;
    },
  );
  // Its failure is told when it is awaited; a consumer that leaves before must not see an unhandled rejection.
  info.catch(() => undefined);
  return info;
}

/** The objects below a folder in key order, those that start with `at.start` and come after `startAfter`. */
async function* walk(
  io: Io,
  folder: string,
  at: { readonly base: string; readonly start: string },
  root: string,
  o: Listing,
): AsyncGenerator<Entry, void, undefined> {
  const wanted = (entry: Entry): boolean => {
    if (!entry.key.startsWith(at.start)) return false;
    if (o.startAfter === undefined || compareKeys(entry.key, o.startAfter) > 0) return true;
    return entry.folder && o.startAfter.startsWith(entry.key);
  };
  if (!(await folderExists(io, folder, o.signal))) return;
  // A folder's key ends in "/", and no name holds one: so all keys below it come exactly where its own key sorts.
  const entries = entriesOf(io, folder, { base: at.base, encoded: "" }, root, o.signal);
  for await (const entry of sortedMerge(entries, wanted, (a, b) => compareKeys(a.key, b.key))) {
    if (entry.folder) yield* walk(io, entry.path, { base: entry.key, start: entry.key }, root, o);
    else yield entry;
  }
}

/** What is in one folder, in no order; the pieces of a long name count as one. */
async function* entriesOf(
  io: Io,
  folder: string,
  at: { readonly base: string; readonly encoded: string },
  root: string,
  signal: AbortSignal,
): AsyncGenerator<Entry, void, undefined> {
  for await (const found of namesIn(io, folder, signal)) {
    const path = join(folder, found.name);
    const parsed = parseName(found.name, at.encoded !== "");
    // The types come with the names. A symbolic link is neither: it is left out like everything else that is not ours.
    if (parsed === null || !(parsed.kind === "object" ? found.isFile() : found.isDirectory())) continue;
    const encoded = at.encoded + parsed.encoded;
    if (parsed.kind === "more") {
      yield* entriesOf(io, path, { base: at.base, encoded }, root, signal);
      continue;
    }
    const part = decodePart(encoded);
    if (part === null) continue;
    const isFolder = parsed.kind === "folder";
    const key = `${at.base}${part}${isFolder ? "/" : ""}`;
    // A name cut in other places than ours would give a key a second path, and list it twice.
    const ours = isFolder ? folderPath(root, key) : objectPath(root, key);
    if (ours === path) yield { key, path, folder: isFolder };
  }
}

async function* namesIn(io: Io, folder: string, signal: AbortSignal): AsyncGenerator<Dirent, void, undefined> {
  let dir;
  try {
    dir = await io("opendir", folder, () => opendir(folder, { bufferSize: 1024 }), signal);
  } catch (error) {
    if (isAbsent(error)) return;
    throw error;
  }
  try {
    for (;;) {
      const entry = await io("readdir", folder, () => dir.read(), signal);
      if (entry === null) return;
      yield entry;
    }
  } finally {
    await io("closedir", folder, () => dir.close(), never);
  }
}
