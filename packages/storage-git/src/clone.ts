import { mkdir, readdir, rm, stat, utimes } from "node:fs/promises";
import { join } from "node:path";
import { createLimiter, ObjectStoreError, uniqueId } from "@holdfast/object-store";
import { Git } from "./git.js";
import type { Settings } from "./options.js";
import { nothing, type Snapshot } from "./snapshot.js";

/** How many git processes of one store run at once. */
const processesMax = 4;
const cloneName = /^[a-z0-9]{24}\.git$/;

/**
 * The store's own copy of the branch: a bare repository without a work tree, below a name that no other store has. It is a cache, and everything in it
 * can be fetched again: a commit that was not pushed is worth nothing. So a clone that a killed process left is never used by another one and needs no
 * repair; it is removed when it is old. What a store's own git left behind, when it was cut short, is cleared away before the next use.
 */
export class Clone {
  readonly path: string;
  readonly git: Git;
  /** The newest state of the branch that this store has seen; belongs to whoever holds the tree lock. */
  snapshot: Snapshot = nothing;
  readonly #settings: Settings;
  readonly #treeLock = createLimiter(1);
  #state: "absent" | "whole" | "cut" = "absent";

  constructor(settings: Settings) {
    this.#settings = settings;
    this.path = join(settings.directory, `${uniqueId(settings.random)}.git`);
    const few = createLimiter(processesMax);
    this.git = new Git(settings, { clone: this.path, few, onTrouble: (trouble) => this.#note(trouble) });
  }

  /**
   * Runs `work` alone on a clone that is there and usable: the tree lock. Held while the clone is changed, so that no two git processes want one lock
   * file, and never while anything is pushed.
   */
  use<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    return this.#treeLock(async () => {
      await this.#ready(signal);
      return work();
    }, signal);
  }

  /** Removes the clone; the next use would make it again. */
  async remove(): Promise<void> {
    this.#state = "absent";
    await rm(this.path, { recursive: true, force: true, maxRetries: 3 });
  }

  #note(trouble: "cut" | "damaged"): void {
    if (trouble === "damaged") this.#state = "absent";
    else if (this.#state === "whole") this.#state = "cut";
  }

  async #ready(signal: AbortSignal): Promise<void> {
    if (this.#state === "cut") await this.#clear();
    if (this.#state === "whole" && (await this.#mark())) return;
    await fileWork(this.path, async () => {
      await this.remove();
      await mkdir(this.path, { recursive: true, mode: 0o700 });
    });
    this.snapshot = nothing;
    checkVersion((await this.git.local(["version"], { signal })).toString("utf8"));
    await this.git.local(["init", "--quiet", "--bare", "--template="], { signal });
    this.#state = "whole";
    await this.#mark();
    await this.#sweep();
  }

  /** Every git process that could hold a lock file here has ended when this runs: the tree lock is held. */
  async #clear(): Promise<void> {
    const names = await readdir(this.path, { recursive: true }).catch(() => null);
    if (names === null) {
      this.#state = "absent";
      return;
    }
    for (const name of names) if (name.endsWith(".lock")) await rm(join(this.path, name), { force: true });
    this.#state = "whole";
  }

  /** Marks the clone as in use; false when it is gone. */
  async #mark(): Promise<boolean> {
    const seconds = this.#settings.clock.wallMs() / 1_000;
    return utimes(join(this.path, "HEAD"), seconds, seconds).then(
      () => true,
      () => false,
    );
  }

  /** Removes what stores that were killed have left; what cannot be removed is left to the operator, since nothing depends on it. */
  async #sweep(): Promise<void> {
    const { directory, clock, cloneMaxAgeMs } = this.#settings;
    const names = await readdir(directory).catch(() => []);
    for (const name of names) {
      const path = join(directory, name);
      if (!cloneName.test(name) || path === this.path) continue;
      const used = await stat(join(path, "HEAD")).catch(() => stat(path).catch(() => null));
      if (used === null || clock.wallMs() - used.mtimeMs < cloneMaxAgeMs) continue;
      await rm(path, { recursive: true, force: true }).catch(() => undefined);
    }
  }
}

/** Older ones know less than what the store asks of git. */
function checkVersion(said: string): void {
  const [, major = "0", minor = "0"] = /(\d+)\.(\d+)/.exec(said) ?? [];
  if (Number(major) > 2 || (Number(major) === 2 && Number(minor) >= 31)) return;
  throw new ObjectStoreError(
    "CONFIG_INVALID",
    `${JSON.stringify(said.trim())} is too old; install git 2.31 or newer, or name it in the option git`,
  );
}

async function fileWork<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const code = String((error as { readonly code?: unknown }).code);
    const denied = code === "EACCES" || code === "EPERM" || code === "EROFS";
    throw new ObjectStoreError(
      denied ? "ACCESS_DENIED" : "UNAVAILABLE",
      `the clone ${path} cannot be made (${code}); check directory, its permissions and the space on it`,
      { cause: error },
    );
  }
}
