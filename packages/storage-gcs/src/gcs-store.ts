import { setImmediate as nextTurn } from "node:timers/promises";
import {
  abortError,
  asError,
  bodySize,
  checkKey,
  checkLimit,
  checkPrefix,
  checkPut,
  eachUntilAborted,
  errorCode,
  ObjectStoreError,
  onAbort,
  throwIfAborted,
  untilAborted,
  type Body,
  type Call,
  type Capabilities,
  type ObjectInfo,
  type ObjectStore,
  type PutOptions,
  type PutResult,
} from "@holdfast/object-store";
import { corrupt } from "./failure.js";
import { objectAddress } from "./api.js";
import { listObjects } from "./list.js";
import { settingsOf, type GcsStoreOptions, type Settings } from "./options.js";
import { writeObject } from "./put.js";
import { readObject, readResource } from "./read.js";
import { ask, sendRepeatedly, valueOf, type Progress } from "./requests.js";
import { infoOf } from "./resource.js";

/**
 * A bucket of Google Cloud Storage as an object store. Sends nothing until it is asked something; holds nothing that has to be closed (a
 * client that was given stays the caller's, and is not changed).
 *
 * `CONFIG_INVALID`, with the option's name, its value and what to do, for options that cannot work.
 *
 * A put that fails says `failed` only when no attempt can have stored anything; requests are sent again, with the body opened again, only
 * where that is safe; answers are believed only as far as they fit what was asked.
 *
 * Not promised: that the sessions of uploads of a process that was killed are deleted (they cannot be listed, and expire within a week);
 * objects named `.` or `..`, which GCS does not take (`INVALID_KEY`; with a `keyPrefix` every key is one).
 */
export function gcsStore(o: GcsStoreOptions): ObjectStore {
  return new GcsStore(settingsOf(o));
}

class GcsStore implements ObjectStore {
  readonly contract = 1;
  readonly capabilities: Capabilities;
  readonly storeId: string;
  readonly #settings: Settings;

  constructor(settings: Settings) {
    this.capabilities = settings.capabilities;
    this.storeId = settings.storeId;
    this.#settings = settings;
  }

  async put(key: string, body: Body, o: PutOptions & Call): Promise<PutResult> {
    const progress: Progress = { stored: "no" };
    try {
      checkPut(key, body, o, this.capabilities);
      this.#checkName(key);
      throwIfAborted(o.signal);
      const put = { key, body, size: bodySize(body), options: o, signal: o.signal, progress };
      return await untilJudged(writeObject(this.#settings, put), o.signal);
    } catch (error) {
      return { outcome: progress.stored === "no" ? "failed" : "unknown", error: asError(error) };
    }
  }

  async get(key: string, o: Parameters<ObjectStore["get"]>[1]): Promise<{ bytes: Uint8Array; info: ObjectInfo }> {
    this.#check(key, o.signal);
    return untilAborted(readObject(this.#settings, key, o), o.signal);
  }

  async head(key: string, o: Call): Promise<ObjectInfo | null> {
    this.#check(key, o.signal);
    const there = await untilAborted(readResource(this.#settings, key, o.signal), o.signal);
    return there === null ? null : infoOf(key, there);
  }

  async *list(o: Parameters<ObjectStore["list"]>[0]): AsyncIterable<ObjectInfo> {
    checkPrefix(o.prefix, this.capabilities.maxKeyBytes);
    checkPrefix(o.startAfter ?? "", this.capabilities.maxKeyBytes);
    yield* eachUntilAborted(listObjects(this.#settings, o, checkLimit(o.limit)), o.signal);
  }

  async delete(key: string, o: Call): Promise<void> {
    this.#check(key, o.signal);
    await untilAborted(deleteObject(this.#settings, key, o.signal), o.signal);
  }

  #check(key: string, signal: AbortSignal): void {
    checkKey(key, this.capabilities.maxKeyBytes);
    this.#checkName(key);
    throwIfAborted(signal);
  }

  /** As the last part of an address these two lead elsewhere, so GCS has no objects of these names. */
  #checkName(key: string): void {
    const name = this.#settings.keyPrefix + key;
    if (name !== "." && name !== "..") return;
    const advice = "choose another key, or give the store a keyPrefix";
    throw new ObjectStoreError("INVALID_KEY", `GCS takes no object named ${JSON.stringify(name)}; ${advice}`);
  }
}

async function deleteObject(s: Settings, key: string, signal: AbortSignal): Promise<void> {
  const what = `DELETE of ${JSON.stringify(key)}`;
  const address = objectAddress(s, key);
  const done = await sendRepeatedly(s, signal, () =>
    ask(s, { what, signal, method: "DELETE", address, absent: "object" }),
  );
  // Absent is success.
  if (errorCode(done.failure?.error) === "NOT_FOUND") return;
  const { status, value } = valueOf(done);
  // A success says nothing; one with words is the page of something else.
  if (status !== 204 && value !== undefined && value !== null && value !== "") {
    throw corrupt(what, `status ${status} came with a body, and a delete is answered without one; look at apiEndpoint`);
  }
}

/** As `untilAborted`, but with a few turns of the event loop in which the bound client says whether anything of the put was sent. */
function untilJudged<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const late = async (): Promise<void> => {
      for (let turn = 0; turn < 5; turn++) await nextTurn();
      reject(abortError(signal));
    };
    const forget = onAbort(signal, () => void late());
    work
      .then(resolve, reject)
      .finally(forget)
      .catch(() => undefined);
  });
}
