import { DeleteObjectCommand } from "@aws-sdk/client-s3";
import {
  asError,
  bodySize,
  checkKey,
  checkLimit,
  checkPrefix,
  checkPut,
  eachUntilAborted,
  errorCode,
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
import { listObjects } from "./list.js";
import { settingsOf, type S3StoreOptions, type Settings } from "./options.js";
import { writeObject } from "./put.js";
import { readInfo, readObject, valueOf } from "./read.js";
import { sendOnce, sendRepeatedly, type Progress } from "./requests.js";

/**
 * A bucket of S3, or of a store that speaks its protocol, as an object store. Sends nothing until it is asked something; holds nothing that
 * has to be closed (a client that was given stays the caller's).
 *
 * `CONFIG_INVALID`, with the option's name, for options that cannot work.
 *
 * A put that fails says `failed` only when no attempt can have stored anything; requests are sent again, with the body opened anew, only
 * where that is safe; answers are believed only as far as they fit what was asked.
 *
 * Not promised: that the store honours its conditions (`probe` of object-store finds out); directory buckets of S3 Express, which list
 * in no order; that parts of an upload are taken away after the process was killed (a lifecycle rule of the bucket does that, or
 * `abortIncompleteUploads`).
 */
export function s3Store(o: S3StoreOptions): ObjectStore {
  return new S3Store(settingsOf(o));
}

class S3Store implements ObjectStore {
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
      throwIfAborted(o.signal);
      const put = { key, body, size: bodySize(body), options: o, signal: o.signal, progress };
      return await untilAborted(writeObject(this.#settings, put), o.signal);
    } catch (error) {
      return { outcome: progress.stored === "no" ? "failed" : "unknown", error: asError(error) };
    }
  }

  async get(key: string, o: Parameters<ObjectStore["get"]>[1]): Promise<{ bytes: Uint8Array; info: ObjectInfo }> {
    this.#checkRead(key, o.signal);
    return untilAborted(readObject(this.#settings, key, o), o.signal);
  }

  async head(key: string, o: Call): Promise<ObjectInfo | null> {
    this.#checkRead(key, o.signal);
    return untilAborted(readInfo(this.#settings, key, o.signal), o.signal);
  }

  async *list(o: Parameters<ObjectStore["list"]>[0]): AsyncIterable<ObjectInfo> {
    checkPrefix(o.prefix, this.capabilities.maxKeyBytes);
    checkPrefix(o.startAfter ?? "", this.capabilities.maxKeyBytes);
    yield* eachUntilAborted(listObjects(this.#settings, o, checkLimit(o.limit)), o.signal);
  }

  async delete(key: string, o: Call): Promise<void> {
    this.#checkRead(key, o.signal);
    const s = this.#settings;
    const work = async () => {
      const done = await sendRepeatedly(s, o.signal, () => {
        const command = new DeleteObjectCommand({ ...s.everywhere, Key: s.keyPrefix + key });
        const request = { what: `DELETE of ${JSON.stringify(key)}`, signal: o.signal };
        return sendOnce(s, request, command, (options) => s.client.send(command, options));
      });
      // Absent is success. S3 says 204 to it, others 404.
      if (errorCode(done.failure?.error) !== "NOT_FOUND") valueOf(done);
    };
    await untilAborted(work(), o.signal);
  }

  #checkRead(key: string, signal: AbortSignal): void {
    checkKey(key, this.capabilities.maxKeyBytes);
    throwIfAborted(signal);
  }
}
