import { collectBody } from "./body.js";
import { asError, ObjectStoreError } from "./errors.js";
import { checkKey, checkPrefix, compareKeys, maxKeyBytes } from "./keys.js";
import { checkPut } from "./put-rules.js";
import { checkLimit, resolveRange } from "./range.js";
import { throwIfAborted } from "./signal.js";
import type { Capabilities, ObjectInfo, ObjectStore, PutOptions, PutResult } from "./store.js";
import { systemWallClock } from "./system-clock.js";

/** What `memoryStore` takes; all of it optional. */
export type MemoryStoreOptions = {
  /** Default `"memory"`. */
  readonly storeId?: string;
  /** Stamps `modifiedAtMs`; default the machine's wall clock. */
  readonly clock?: { wallMs(): number };
};

type Stored = { readonly bytes: Uint8Array; readonly info: ObjectInfo };
const capabilities: Capabilities = {
  create: true,
  ifMatch: true,
  metadata: true,
  maxObjectBytes: 2 ** 31 - 1,
  maxKeyBytes,
};
const noMetadata: Readonly<Record<string, string>> = Object.freeze({});

/**
 * An object store in this process's memory, for tests, simulations and trying things out. It keeps the whole contract, both
 * conditions included, and is deterministic: etags count up from 1 and nothing waits. It forgets everything with the process.
 */
export function memoryStore(o: MemoryStoreOptions = {}): ObjectStore {
  const clock = o.clock ?? systemWallClock;
  const objects = new Map<string, Stored>();
  let writes = 0;

  /** The one synchronous step in which a put takes effect: nothing can come between the condition and the write. */
  const store = (key: string, bytes: Uint8Array, put: PutOptions): PutResult => {
    const there = objects.get(key);
    if (put.mode === "create" && there !== undefined) return { outcome: "exists", info: there.info };
    if (typeof put.mode === "object" && there?.info.etag !== put.mode.ifMatch) {
      if (there !== undefined) return { outcome: "exists", info: there.info };
      throw new ObjectStoreError(
        "PRECONDITION_FAILED",
        `nothing is at ${JSON.stringify(key)}, so it cannot be replaced`,
      );
    }
    const etag = String(++writes);
    const metadata = Object.freeze({ ...put.metadata });
    const info = Object.freeze({ key, size: bytes.byteLength, etag, metadata, modifiedAtMs: clock.wallMs() });
    objects.set(key, { bytes, info });
    return { outcome: "created", etag };
  };

  return {
    contract: 1,
    storeId: o.storeId ?? "memory",
    capabilities,

    async put(key, body, put) {
      try {
        checkPut(key, body, put, capabilities);
        const bytes = await collectBody(body, put);
        throwIfAborted(put.signal);
        return store(key, bytes, put);
      } catch (error) {
        return { outcome: "failed", error: asError(error) };
      }
    },

    async get(key, { range, ifMatch, signal }) {
      checkKey(key);
      throwIfAborted(signal);
      const there = objects.get(key);
      if (there === undefined) throw new ObjectStoreError("NOT_FOUND", `nothing is at ${JSON.stringify(key)}`);
      if (ifMatch !== undefined && ifMatch !== there.info.etag) {
        const differs = `the object at ${JSON.stringify(key)} has etag ${there.info.etag}, not ${ifMatch}`;
        throw new ObjectStoreError("PRECONDITION_FAILED", `${differs}; it was replaced since`);
      }
      const { offset, length } = resolveRange(range, there.info.size);
      return Promise.resolve({ bytes: there.bytes.slice(offset, offset + length), info: there.info });
    },

    async head(key, { signal }) {
      checkKey(key);
      throwIfAborted(signal);
      return Promise.resolve(objects.get(key)?.info ?? null);
    },

    async *list({ prefix, startAfter, limit, signal }) {
      checkPrefix(prefix);
      checkPrefix(startAfter ?? "");
      let left = checkLimit(limit);
      throwIfAborted(signal);
      const after = (key: string) => startAfter === undefined || compareKeys(key, startAfter) > 0;
      const keys = [...objects.keys()].filter((key) => key.startsWith(prefix) && after(key)).sort(compareKeys);
      for (const key of keys) {
        const there = objects.get(key);
        if (there === undefined) continue;
        yield await Promise.resolve({ ...there.info, metadata: noMetadata });
        if (--left === 0) return;
        throwIfAborted(signal);
      }
    },

    async delete(key, { signal }) {
      checkKey(key);
      throwIfAborted(signal);
      objects.delete(key);
      return Promise.resolve();
    },
  };
}
