import { dirname, join, resolve } from "node:path";
import {
  asError,
  checkKey,
  checkLimit,
  checkPut,
  checkPrefix,
  checkRange,
  eachUntilAborted,
  errorCode,
  maxKeyBytes,
  ObjectStoreError,
  throwIfAborted,
  untilAborted,
  systemRandom,
  type Body,
  type Call,
  type Capabilities,
  type ObjectInfo,
  type ObjectStore,
  type PutOptions,
  type PutResult,
} from "@holdfast/object-store";
import { systemIo, type Io } from "./file-ops.js";
import { Folders } from "./folders.js";
import { listInfos, type Listing } from "./list.js";
import { objectPath } from "./names.js";
import { readInfo, readObject } from "./read.js";
import { sweepStaging } from "./sweep.js";
import { publish, remove, stage, stagingName, unstage, type Progress } from "./write.js";

/** What {@link fsStore} takes. */
export type FsStoreOptions = {
  /** The directory that holds the objects; made by the first put when it does not exist. */
  readonly directory: string;
  /**
   * Names the store in catalogs. Default `fs:` and the absolute path as given (symbolic links not resolved): give your own when the
   * directory may be mounted or moved elsewhere.
   */
  readonly storeId?: string;
  /** Numbers in [0, 1) that make etags and temporary names unique; default the machine's randomness. */
  readonly random?: () => number;
  /**
   * How long after its last write a half-written file is taken for one of a killed writer, in ms, and removed by the first put of a later
   * store of this directory: a whole number of at least 60,000; default 86,400,000 (a day). Longer than any put may stall.
   */
  readonly stagingMaxAgeMs?: number;
};

const capabilities: Capabilities = {
  create: true,
  // A file system has no "replace if it is still this one" that holds against other processes.
  ifMatch: false,
  metadata: true,
  maxObjectBytes: 2 ** 42,
  maxKeyBytes,
};

/**
 * A directory as an object store, shared by any number of processes that see it as one local file system.
 *
 * A put writes a file beside the others and makes its content durable, then gives it the key's name by a hard link (`create`, which
 * the file system refuses when the name is taken) or a rename (`overwrite`), then syncs the folders up to the root: `created` means
 * that the object survives a power cut, as far as the disk keeps its word on fdatasync and fsync.
 *
 * `CONFIG_INVALID` for an empty directory. Nothing else is checked, made or opened here. A directory that cannot be
 * written makes puts fail with `ACCESS_DENIED`. One that does not exist is an empty store to every read.
 *
 * Not promised: `ifMatch` in a put (`UNSUPPORTED`); anything about files in the directory that others put there, except that
 * symbolic links are never followed; durability on network file systems beyond what their fsync gives.
 */
export function fsStore(o: FsStoreOptions): ObjectStore {
  return new FsStore(o, systemIo);
}

/** The store over any {@link Io}, so that tests can record operations and make them fail. */
export class FsStore implements ObjectStore {
  readonly contract = 1;
  readonly capabilities = capabilities;
  readonly storeId: string;
  readonly #io: Io;
  readonly #folders: Folders;
  readonly #random: () => number;
  readonly #stagingMaxAgeMs: number;
  #swept = false;
  /**
   * Names whose change is not known to be durable, each with the promise of it. A name is visible before its folder is synced:
   * whoever looked in between, after a put that timed out, say, would take for stored what a crash can undo. So
   * reads of such a key end after its promise, and fail as it does.
   */
  readonly #changing = new Map<string, Promise<unknown>>();

  constructor(o: FsStoreOptions, io: Io) {
    if (typeof o.directory !== "string" || o.directory === "") {
      throw new ObjectStoreError(
        "CONFIG_INVALID",
        `directory must be the path of a directory, not ${JSON.stringify(o.directory)}`,
      );
    }
    const age = o.stagingMaxAgeMs ?? 86_400_000;
    if (!Number.isSafeInteger(age) || age < 60_000) {
      throw new ObjectStoreError(
        "CONFIG_INVALID",
        `stagingMaxAgeMs is ${age}; it must be a whole number of at least 60000`,
      );
    }
    this.#stagingMaxAgeMs = age;
    this.storeId = o.storeId ?? `fs:${resolve(o.directory)}`;
    this.#io = io;
    this.#folders = new Folders(io, o.directory);
    this.#random = o.random ?? systemRandom;
  }

  async put(key: string, body: Body, o: PutOptions & Call): Promise<PutResult> {
    const progress: Progress = { state: "nothing" };
    try {
      checkPut(key, body, o, capabilities);
      throwIfAborted(o.signal);
      return await untilAborted(this.#write(key, body, o, progress), o.signal);
    } catch (error) {
      return { outcome: progress.state === "nothing" ? "failed" : "unknown", error: asError(error) };
    }
  }

  async get(key: string, o: Parameters<ObjectStore["get"]>[1]): Promise<{ bytes: Uint8Array; info: ObjectInfo }> {
    if (o.range !== undefined) checkRange(o.range);
    const object = await this.#read(key, o.signal, (path) => readObject(this.#io, path, key, o));
    if (object === null) throw new ObjectStoreError("NOT_FOUND", `nothing is at ${JSON.stringify(key)}`);
    return object;
  }

  async head(key: string, o: Call): Promise<ObjectInfo | null> {
    return this.#read(key, o.signal, (path) => readInfo(this.#io, path, key, o.signal));
  }

  async *list(o: Parameters<ObjectStore["list"]>[0]): AsyncIterable<ObjectInfo> {
    checkPrefix(o.prefix);
    checkPrefix(o.startAfter ?? "");
    yield* eachUntilAborted(this.#list(o, checkLimit(o.limit)), o.signal);
  }

  async delete(key: string, o: Call): Promise<void> {
    checkKey(key);
    throwIfAborted(o.signal);
    const work = async () => {
      const root = await this.#folders.root(o.signal);
      if (root === null) return;
      const path = objectPath(root, key);
      const progress: Progress = { state: "nothing" };
      await this.#change(path, progress, () => remove(this.#io, path, { signal: o.signal, progress }));
    };
    await untilAborted(work(), o.signal);
  }

  /** Runs `use` on the key's path while the root exists, ends with the signal, and waits for the durability of what it saw. */
  async #read<T>(key: string, signal: AbortSignal, use: (path: string) => Promise<T | null>): Promise<T | null> {
    checkKey(key);
    throwIfAborted(signal);
    const work = async () => {
      const root = await this.#folders.root(signal);
      if (root === null) return null;
      const path = objectPath(root, key);
      const seen = await use(path);
      await this.#changing.get(path);
      return seen;
    };
    return untilAborted(work(), signal);
  }

  async *#list(o: Listing, limit: number): AsyncGenerator<ObjectInfo, void, undefined> {
    const root = await this.#folders.root(o.signal);
    if (root !== null) yield* listInfos(this.#io, root, o, limit);
  }

  async #write(key: string, body: Body, options: PutOptions & Call, progress: Progress): Promise<PutResult> {
    const { signal } = options;
    const root = await this.#folders.makeRoot(signal);
    const target = objectPath(root, key);
    await this.#folders.make(dirname(target), root, signal);
    const staging = join(root, stagingName);
    await this.#folders.make(staging, root, signal);
    const staged = await stage(this.#io, root, { key, body, options, signal }, this.#random);
    if (!this.#swept) {
      this.#swept = true;
      await sweepStaging(this.#io, staging, staged.modifiedAtMs, this.#stagingMaxAgeMs);
    }
    const mode = options.mode === "create" ? "create" : "overwrite";
    const hand = () => publish(this.#io, staged, target, { mode, signal, progress });
    const ended = await this.#change(target, progress, hand).finally(() => unstage(this.#io, staged.path));
    if (ended === "named") return { outcome: "created", etag: staged.etag };
    const info = await readInfo(this.#io, target, key, signal).catch((error: unknown) => {
      // What is damaged is not the file that we have just written and synced; whether it has replaced ours is another question.
      if (ended === "taken" && errorCode(error) === "CORRUPT") progress.state = "nothing";
      throw error;
    });
    // A network file system that repeats a request answers the second time that the name is taken, or the staged file gone: by us.
    if (info?.etag === staged.etag) return { outcome: "created", etag: staged.etag };
    // Nobody can say whether ours was there and has been replaced or deleted since.
    if (ended === "open") throw staysOpen(key, info);
    progress.state = "nothing";
    if (info !== null) return { outcome: "exists", info };
    throw new ObjectStoreError(
      "UNAVAILABLE",
      `${JSON.stringify(key)} was taken and then deleted while it was created; try again`,
    );
  }

  /**
   * Runs a change of one name after whatever else is changing it. A change that failed half-way, with its name visible and its folder not
   * synced, stays in the map, and fails all reads of the key, until a later change of it succeeds.
   */
  async #change<T>(path: string, progress: Progress, change: () => Promise<T>): Promise<T> {
    const before = this.#changing.get(path);
    const beforeFailed = before?.then(
      () => false,
      () => true,
    );
    const work = async () => {
      await beforeFailed;
      return change();
    };
    const durable = work();
    this.#changing.set(path, durable);
    const settle = (left: Promise<unknown> | undefined) => {
      if (this.#changing.get(path) !== durable) return;
      if (left === undefined) this.#changing.delete(path);
      else this.#changing.set(path, left);
    };
    try {
      const result = await durable;
      settle(undefined);
      return result;
    } catch (error) {
      if (progress.state === "nothing") settle((await beforeFailed) ? before : undefined);
      throw error;
    }
  }
}

function staysOpen(key: string, info: ObjectInfo | null): ObjectStoreError {
  const seen = info === null ? "nothing" : "another object";
  const why =
    "either something removed the staged file, or ours was there and did not stay; look at the key before anything else";
  return new ObjectStoreError(
    "UNAVAILABLE",
    `the staged file of ${JSON.stringify(key)} was gone when it was renamed, and ${seen} is there: ${why}`,
  );
}
