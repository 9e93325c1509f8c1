import { AsyncLocalStorage } from "node:async_hooks";
import {
  asError,
  checkKey,
  checkLimit,
  checkPrefix,
  checkPut,
  checkRange,
  eachUntilAborted,
  ObjectStoreError,
  resolveRange,
  untilAborted,
  type Body,
  type Call,
  type Capabilities,
  type ObjectInfo,
  type ObjectStore,
  type PutOptions,
  type PutResult,
} from "@holdfast/object-store";
import { OpenBatch, type GitBatch, type GitChange, type GitChangeOptions } from "./batch.js";
import { Branch } from "./branch.js";
import { CallScope } from "./call-scope.js";
import { Clone } from "./clone.js";
import type { Progress } from "./land.js";
import { listFiles } from "./list.js";
import { checkSubject } from "./message.js";
import { settingsOf, type GitStoreOptions, type Settings } from "./options.js";
import { checkPath } from "./paths.js";
import { deleteObject, putObject, type Tools } from "./put.js";
import { infoOf } from "./snapshot.js";
import { Writer } from "./writer.js";

/** How a batch, or a change by itself, ended. */
export type GitWritten = {
  /** The commits that landed, in order: none when nothing changed, one, or one for each part of a batch that was split. */
  readonly commits: readonly string[];
  /** The commit that the branch was at afterwards; null when it has none. */
  readonly revision: string | null;
};

/** How {@link GitStore.batch} ended. */
export type GitBatchResult<T> = GitWritten & {
  /** What the body returned. */
  readonly value: T;
  /** True of a batch inside a batch: what it changed is landed by the outer one, so there is no commit yet. */
  readonly joined: boolean;
};

/** An object store on a branch of a git repository, and changes of several files that land together. */
export interface GitStore extends ObjectStore, AsyncDisposable {
  /**
   * The content of a file and the commit that it was read at, which together are what a conditional change needs: give `revision` back as `baseRevision`.
   * `bytes` is null when there is no such file, `revision` when the branch has no commit. Inside a batch: as the batch sees it.
   */
  read(path: string, o: Call): Promise<{ readonly bytes: Uint8Array | null; readonly revision: string | null }>;
  /**
   * Changes one file: one commit, or none when the content is there already. Without a `baseRevision` the change is made again, once, when another writer
   * was first. Errors: as for {@link GitStore.batch}.
   */
  write(path: string, body: Body, o: GitChangeOptions & Call): Promise<GitChange & GitWritten>;
  /** Removes one file, as {@link GitStore.write} changes one. */
  remove(path: string, o: GitChangeOptions & Call): Promise<GitChange & GitWritten>;
  /**
   * Runs `fn` and lands what it changed through its argument as one commit with one push, all or nothing. `message` is the first line of the commit's
   * message; the changes follow, one line each. What `fn` throws discards the batch and is thrown on.
   *
   * When another writer was first: without any `baseRevision` in the batch, all of it is made again on the new commit, once. With one, nothing is, and the
   * error is `ConcurrencyConflictError` (`CONCURRENCY_CONFLICT`) for the first change that had one.
   *
   * A batch inside a batch of the same store joins it. One batch runs at a time in a store; others, and puts, wait. Inside `fn` the methods of the
   * object-store contract are `UNSUPPORTED`: they would not see the batch.
   *
   * Other errors: `INVALID_KEY`, `TOO_LARGE`, `BODY_MISMATCH` of a change; `ACCESS_DENIED` when the remote refuses the push; `UNAVAILABLE` when it does not
   * answer ({@link RemoteUnavailableError}), or others were faster twice; `CONFIG_INVALID`; those of the signal. When the signal ends a push, it may have landed.
   */
  batch<T>(message: string, fn: (batch: GitBatch) => Promise<T>, o: Call): Promise<GitBatchResult<T>>;
}

/**
 * A branch of a git repository as an object store for small objects that people read too: policies, schemas, configuration. Keys are paths, and
 * bytes are files; metadata is kept in the messages of the commits. Runs the machine's `git`. Starts nothing until it is asked something; dispose of it to end
 * what runs and to remove its clone.
 *
 * `CONFIG_INVALID`, with the option's name, its value and what to do, for options that cannot work.
 *
 * Not promised: Windows; repositories with SHA-256 ids; objects in Git LFS (their pointers are read).
 */
export function gitStore(o: GitStoreOptions): GitStore {
  return new BranchStore(settingsOf(o));
}

class BranchStore implements GitStore {
  readonly contract = 1;
  readonly capabilities: Capabilities;
  readonly storeId: string;
  readonly #clone: Clone;
  readonly #branch: Branch;
  readonly #tools: Tools;
  readonly #calls = new CallScope();
  /** The batch in whose body this code runs. */
  readonly #batches = new AsyncLocalStorage<OpenBatch>();

  constructor(settings: Settings) {
    this.capabilities = settings.capabilities;
    this.storeId = settings.storeId;
    this.#clone = new Clone(settings);
    this.#branch = new Branch(settings, this.#clone);
    const writer = new Writer(settings, this.#clone, this.#branch);
    this.#tools = { settings, branch: this.#branch, writer };
  }

  async put(key: string, body: Body, o: PutOptions & Call): Promise<PutResult> {
    const progress: Progress = { outcome: "not-sent" };
    try {
      checkPut(key, body, o, this.capabilities);
      this.#check(key);
      return await this.#calls.run("put", o.signal, (signal) =>
        putObject(this.#tools, { key, body, options: o }, { signal, progress }),
      );
    } catch (error) {
      return { outcome: progress.outcome === "unknown" ? "unknown" : "failed", error: asError(error) };
    }
  }

  async get(key: string, o: Parameters<ObjectStore["get"]>[1]): Promise<{ bytes: Uint8Array; info: ObjectInfo }> {
    this.#check(key);
    const { range, ifMatch } = o;
    if (range !== undefined) checkRange(range);
    return this.#calls.run("get", o.signal, async (signal) => {
      const file = (await this.#branch.settle(signal)).file(key);
      if (file === null) throw new ObjectStoreError("NOT_FOUND", `nothing is at ${JSON.stringify(key)}`);
      const info = infoOf(file);
      if (ifMatch !== undefined && ifMatch !== info.etag) {
        const differs = `the object at ${JSON.stringify(key)} has etag ${info.etag}, not ${ifMatch}`;
        throw new ObjectStoreError("PRECONDITION_FAILED", `${differs}; it was replaced since`);
      }
      const { offset, length } = resolveRange(range, file.size);
      const all = await this.#branch.read(file, signal);
      return { bytes: range === undefined ? all : all.slice(offset, offset + length), info };
    });
  }

  async head(key: string, o: Call): Promise<ObjectInfo | null> {
    this.#check(key);
    return this.#calls.run("head", o.signal, async (signal) => {
      const file = (await this.#branch.settle(signal)).file(key);
      return file === null ? null : infoOf(file);
    });
  }

  async *list(o: Parameters<ObjectStore["list"]>[0]): AsyncIterable<ObjectInfo> {
    checkPrefix(o.prefix, this.capabilities.maxKeyBytes);
    checkPrefix(o.startAfter ?? "", this.capabilities.maxKeyBytes);
    const limit = checkLimit(o.limit);
    this.#outsideBatch();
    const at = await this.#calls.run("list", o.signal, (signal) => this.#branch.settle(signal));
    yield* eachUntilAborted(listFiles(at, o, limit), o.signal);
  }

  async delete(key: string, o: Call): Promise<void> {
    this.#check(key);
    const progress: Progress = { outcome: "not-sent" };
    await this.#calls.run("delete", o.signal, (signal) => deleteObject(this.#tools, key, { signal, progress }));
  }

  async read(path: string, o: Call): Promise<{ bytes: Uint8Array | null; revision: string | null }> {
    const outer = this.#outer();
    if (outer !== null) return { bytes: await outer.read(path), revision: outer.revision };
    checkPath(path);
    return this.#calls.run("read", o.signal, async (signal) => {
      const at = await this.#branch.settle(signal);
      const file = at.file(path);
      return { bytes: file === null ? null : await this.#branch.read(file, signal), revision: at.commit };
    });
  }

  write(path: string, body: Body, o: GitChangeOptions & Call): Promise<GitChange & GitWritten> {
    return this.#changeOne(o.message ?? `write ${path}`, o, (batch) => batch.write(path, body, o));
  }

  remove(path: string, o: GitChangeOptions & Call): Promise<GitChange & GitWritten> {
    return this.#changeOne(o.message ?? `remove ${path}`, o, (batch) => batch.remove(path, o));
  }

  batch<T>(message: string, fn: (batch: GitBatch) => Promise<T>, o: Call): Promise<GitBatchResult<T>> {
    return this.#batch({ subject: message, isList: true }, fn, o);
  }

  /** Ends what runs, with its git processes, waits until they have ended, and removes the clone. Later calls fail with `CANCELED`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#calls.close();
    await this.#clone.remove();
  }

  async #changeOne(
    subject: string,
    o: GitChangeOptions & Call,
    change: (batch: GitBatch) => Promise<GitChange>,
  ): Promise<GitChange & GitWritten> {
    const { value, commits, revision } = await this.#batch({ subject, isList: false }, change, o);
    return { ...value, commits, revision };
  }

  async #batch<T>(
    words: { readonly subject: string; readonly isList: boolean },
    fn: (batch: GitBatch) => Promise<T>,
    o: Call,
  ): Promise<GitBatchResult<T>> {
    checkSubject(words.subject, "message");
    const outer = this.#outer();
    if (outer !== null) return joinBatch(outer, fn);
    return this.#calls.run("batch", o.signal, (signal) =>
      this.#tools.writer.lock(async () => {
        const on = await this.#branch.settle(signal);
        const batch = new OpenBatch(this.#tools, on, words, { signal, progress: { outcome: "not-sent" } });
        try {
          // Ends with the call, whatever the body waits for: what it does afterwards is refused.
          const value = await untilAborted(this.#batches.run(batch, fn, batch), signal);
          await batch.finish();
          return { value, joined: false, commits: batch.commits, revision: batch.revision };
        } finally {
          batch.discard();
        }
      }, signal),
    );
  }

  #outer(): OpenBatch | null {
    const batch = this.#batches.getStore();
    return batch?.isOpen === true ? batch : null;
  }

  #check(key: string): void {
    checkKey(key, this.capabilities.maxKeyBytes);
    checkPath(key);
    this.#outsideBatch();
  }

  #outsideBatch(): void {
    if (this.#outer() === null) return;
    const advice = "use the batch's own read, list, write and remove, or call this after it";
    throw new ObjectStoreError(
      "UNSUPPORTED",
      `inside a batch of ${this.storeId} an object's own methods do not see what is staged; ${advice}`,
    );
  }
}

async function joinBatch<T>(outer: OpenBatch, fn: (batch: GitBatch) => Promise<T>): Promise<GitBatchResult<T>> {
  try {
    return { value: await fn(outer), joined: true, commits: [], revision: outer.revision };
  } catch (error) {
    outer.fail(error);
    throw error;
  }
}
