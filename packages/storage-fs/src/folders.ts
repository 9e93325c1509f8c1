import { realpath } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { errno, folderExists, isAbsent, syncFolder, type Io } from "./file-ops.js";
import { makeFolders } from "./make-folders.js";

/** The folders of one store: where its root really is, and which of them are known to outlive a crash. */
export class Folders {
  readonly #io: Io;
  readonly #directory: string;
  /** Folders whose entry in their parent, and so on up to the root, this process has made durable. */
  readonly #durable = new Set<string>();
  #root: string | null = null;

  constructor(io: Io, directory: string) {
    this.#io = io;
    this.#directory = resolve(directory);
  }

  /** The root without symbolic links on the way, or `null` when it does not exist yet. */
  async root(signal: AbortSignal): Promise<string | null> {
    if (this.#root !== null) return this.#root;
    try {
      this.#root = await this.#io("realpath", this.#directory, () => realpath(this.#directory), signal);
    } catch (error) {
      if (!isAbsent(error)) throw error;
    }
    return this.#root;
  }

  /** The root, made durably when it does not exist yet. */
  async makeRoot(signal: AbortSignal): Promise<string> {
    if (this.#root !== null && this.#durable.has(this.#root)) return this.#root;
    const made = await this.#make(this.#directory, signal);
    const root = await this.root(signal);
    if (root === null) throw new Error(`${this.#directory} disappeared while it was being made`);
    if (made !== undefined) await this.#syncChain(this.#directory, dirname(made));
    else await this.#syncRootEntry(root);
    this.#durable.add(root);
    return root;
  }

  /** Makes a folder below the root, and every entry on the way to it durable. */
  async make(folder: string, root: string, signal: AbortSignal): Promise<void> {
    if (this.#durable.has(folder) && (await folderExists(this.#io, folder, signal))) return;
    // From the deepest one that exists, checked for symbolic links: mkdir itself would follow them.
    for (let at = folder; !(await folderExists(this.#io, at, signal));) {
      if (at === root) break;
      at = dirname(at);
    }
    const made = await this.#make(folder, signal);
    // Only when somebody removed the root under us is anything above it new.
    const last = made !== undefined && made.length <= root.length ? dirname(made) : root;
    await this.#syncChain(folder, last);
    if (this.#durable.size > 10_000) this.#durable.clear();
    for (let at = folder; at !== root; at = dirname(at)) this.#durable.add(at);
  }

  /** All levels in one operation: an abort between two would leave one behind that nobody knows to sync. */
  async #make(folder: string, signal: AbortSignal): Promise<string | undefined> {
    return this.#io("mkdir", folder, () => makeFolders(folder), signal);
  }

  /** Syncs every folder from the parent of `folder` up to `last`. */
  async #syncChain(folder: string, last: string): Promise<void> {
    for (let at = folder; at !== last && at !== dirname(at);) {
      at = dirname(at);
      await syncFolder(this.#io, at);
    }
  }

  /** The root was there before us, perhaps made by a process that was killed before it synced. We may not read its parent. */
  async #syncRootEntry(root: string): Promise<void> {
    try {
      await syncFolder(this.#io, dirname(root));
    } catch (error) {
      if (errno(error) !== "EACCES" && errno(error) !== "EPERM") throw error;
    }
  }
}
