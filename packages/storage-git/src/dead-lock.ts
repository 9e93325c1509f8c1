import { mkdir, rm, rmdir, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Instant } from "@holdfast/deadline-http";
import type { Settings } from "./options.js";

/** Git holds the lock file of a ref for milliseconds. A dead one was last written this long ago, in ms of the wall clock. */
export const deadLockMs = 600_000;
/**
 * And this store has seen it unchanged for this long, in ms. The wall clock alone is not enough: it may jump, and a machine may be suspended
 * while a live git holds the lock, which then needs a moment to finish.
 */
export const watchedMs = 2_000;

/**
 * Removes the lock files that a killed git has left in a remote that is a directory of this machine: on the branch, and on the HEAD that points to it.
 * Git never removes them, and would refuse every push until a person did. On any other remote the server holds the locks.
 *
 * What must not be removed is the lock of a git that is alive: two gits that both believe they hold it can lose a commit that was acknowledged. So a lock
 * is removed by one store at a time, and only after it was seen once more to be the file that was found dead. That file cannot be replaced meanwhile, since
 * git only makes a lock where none is, and no other store removes this one.
 */
export class DeadLocks {
  readonly #settings: Settings;
  /** Path of a lock -> which file it was, and since when this store has seen it. */
  readonly #seen = new Map<string, { readonly id: string; readonly since: Instant }>();

  constructor(settings: Settings) {
    this.#settings = settings;
  }

  /** To be called after each push to `ref` that was refused because of a lock. */
  async clear(ref: string): Promise<void> {
    const { directory } = this.#settings.remote;
    if (directory === null) return;
    for (const repository of [directory, join(directory, ".git")])
      for (const name of [`${ref}.lock`, "HEAD.lock"]) await this.#clearOne(repository, join(repository, name));
  }

  async #clearOne(repository: string, lock: string): Promise<void> {
    const found = await fileAt(lock);
    const seen = this.#seen.get(lock);
    const { clock } = this.#settings;
    const now = clock.now();
    if (found === null) this.#seen.delete(lock);
    else if (seen?.id !== found.id) this.#seen.set(lock, { id: found.id, since: now });
    else if (now - seen.since >= watchedMs && clock.wallMs() - found.writtenAtMs >= deadLockMs)
      await this.#alone(repository, found.id, async () => {
        if ((await fileAt(lock))?.id === found.id) await rm(lock);
      });
  }

  /**
   * Runs `work` unless another store is at it for the same file. What fails is left: the refusal of the next push names the lock. A store that is
   * killed meanwhile leaves an empty directory, which holds the others up for at most {@link deadLockMs}.
   */
  async #alone(repository: string, id: string, work: () => Promise<void>): Promise<void> {
    const turn = Math.floor(this.#settings.clock.wallMs() / deadLockMs);
    const guard = join(repository, `holdfast-${id}-${turn}`);
    try {
      await mkdir(guard);
      await work().finally(() => rmdir(guard));
    } catch {
      return;
    }
  }
}

/** Which file is at a path: no other file there has the same id. */
async function fileAt(path: string): Promise<{ readonly id: string; readonly writtenAtMs: number } | null> {
  const found = await stat(path, { bigint: true }).catch(() => null);
  return found === null ? null : { id: `${found.ino}-${found.mtimeNs}`, writtenAtMs: Number(found.mtimeMs) };
}
