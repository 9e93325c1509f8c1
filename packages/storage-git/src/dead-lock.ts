import { rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Settings } from "./options.js";

/**
 * Git holds the lock file of a ref for milliseconds. One that was last written this long ago is of a process that was killed, or of one that has been
 * standing still for as long.
 */
export const deadLockMs = 600_000;

/**
 * Removes the lock files that a killed git has left on a ref of a remote that is a directory of this machine, and on the HEAD that points to it: git itself never does, and
 * every push would be refused until a person did. Elsewhere than in a directory it is the server that holds the locks, and no concern of ours.
 */
export async function clearDeadLocks(s: Settings, ref: string): Promise<void> {
  const { directory } = s.remote;
  if (directory === null) return;
  const names = [`${ref}.lock`, "HEAD.lock"];
  for (const lock of [directory, join(directory, ".git")].flatMap((above) => names.map((name) => join(above, name)))) {
    const found = await stat(lock).catch(() => null);
    if (found === null || s.clock.wallMs() - found.mtimeMs < deadLockMs) continue;
    await rm(lock, { force: true }).catch(() => undefined);
  }
}
