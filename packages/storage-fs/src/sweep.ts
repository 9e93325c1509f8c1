import { opendir, lstat, unlink } from "node:fs/promises";
import { join } from "node:path";
import { never, type Io } from "./file-ops.js";

/** How many names one sweep looks at: a put waits for it. */
const looksMax = 1000;
/** The names that the store gives to half-written files. */
const ours = /^[0-9a-z]{24,}$/;

/**
 * Removes half-written files that killed writers left: those that were last written `maxAgeMs` before `nowMs`, a time that the same
 * file system has just given to a file of ours, so that no other clock takes part. A writer that is alive after all, and was stalled for
 * so long, finds its file gone when it asks for its name: its create is `failed`, its overwrite `unknown` (a rename
 * that is done and then denied looks the same), and nothing is lost. What cannot be looked at or removed is left; never rejects.
 */
export async function sweepStaging(io: Io, folder: string, nowMs: number, maxAgeMs: number): Promise<void> {
  try {
    const dir = await io("opendir", folder, () => opendir(folder), never);
    try {
      for (let looks = 0; looks < looksMax; looks++) {
        const entry = await io("readdir", folder, () => dir.read(), never);
        if (entry === null) return;
        if (entry.isFile() && ours.test(entry.name)) await removeIfOld(io, join(folder, entry.name), nowMs - maxAgeMs);
      }
    } finally {
      await io("closedir", folder, () => dir.close(), never);
    }
  } catch {
    // Nothing depends on it; the next store of this directory looks again.
  }
}

async function removeIfOld(io: Io, path: string, beforeMs: number): Promise<void> {
  const stat = await io("stat", path, () => lstat(path), never);
  if (stat.mtimeMs < beforeMs) await io("unlink", path, () => unlink(path), never);
}
