import assert from "node:assert/strict";
import { ObjectStoreError, type ByteRange, type ObjectInfo } from "@holdfast/object-store";
import { askingGet, onGet, onHead } from "../lies.js";
import { ok, assertRejects, headOf, open, put, rangeText, readText, remove, seed, textOf } from "../support.js";
import type { Case } from "../types.js";

type Offset = { readonly offset: number; readonly length: number };
const isOffset = (range: ByteRange | undefined): range is Offset => range !== undefined && "offset" in range;
const notFound = new ObjectStoreError("NOT_FOUND", "nothing is there");

const none = (): Uint8Array => new Uint8Array(0);

/** Reading whole objects, and what a second handle sees. */
export const readCases: readonly Case[] = [
  {
    id: "OS-120",
    clause: "a get where nothing is is NOT_FOUND",
    lie: {
      says: "nothing reads as an object without bytes",
      tell: onGet(({ key, o, real }) =>
        real.get(key, o).catch((error: unknown) => {
          if (!(error instanceof ObjectStoreError) || error.code !== "NOT_FOUND" || key !== "nothing") throw error;
          return { bytes: none(), info: { key, size: 0, etag: "", metadata: {}, modifiedAtMs: 0 } };
        }),
      ),
    },
    run: async ({ store }) => assertRejects(store.get("nothing", { signal: open }), "NOT_FOUND"),
  },
  {
    id: "OS-121",
    clause: "head where nothing is is null",
    lie: {
      says: "head where nothing is is an error",
      tell: onHead(async ({ key, o, real }) => {
        const info = await real.head(key, o);
        if (info === null && key === "nothing") throw notFound;
        return info;
      }),
    },
    run: async ({ store }) => assert.equal(await headOf(store, "nothing"), null),
  },
  {
    id: "OS-122",
    clause: "where only longer keys are, nothing is",
    lie: {
      says: "head finds a folder",
      tell: onHead(async ({ key, o, real }) => {
        const info = await real.head(key, o);
        if (info !== null) return info;
        for await (const below of real.list({ prefix: `${key.replace(/\/$/, "")}/`, limit: 1, signal: o.signal })) {
          if (below.key.startsWith("only/")) return { ...below, key, size: 0 };
        }
        return null;
      }),
    },
    async run({ store }) {
      await seed(store, "only/below", "v");
      for (const key of ["only", "only/", "only/bel"]) assert.equal(await headOf(store, key), null, key);
    },
  },
  {
    id: "OS-148",
    clause: "a get under the object's own etag is answered",
    lie: {
      says: "a get under a condition is always refused",
      tell: onGet(({ key, o, real }) =>
        real.get(key, o.ifMatch === undefined ? o : { ...o, ifMatch: `not ${o.ifMatch}` }),
      ),
    },
    async run({ store }) {
      const etag = await seed(store, "k", "one");
      assert.equal(textOf((await store.get("k", { ifMatch: etag, signal: open })).bytes), "one");
    },
  },
  {
    id: "OS-149",
    clause: "a get under the etag of a replaced object is PRECONDITION_FAILED",
    lie: {
      says: "a whole get ignores its condition",
      tell: askingGet(({ range, ifMatch, signal }) =>
        range === undefined ? { signal } : { range, signal, ...(ifMatch === undefined ? {} : { ifMatch }) },
      ),
    },
    async run({ store }) {
      const etag = await seed(store, "k", "one");
      await seed(store, "k", "two!", { mode: "overwrite" });
      await assertRejects(store.get("k", { ifMatch: etag, signal: open }), "PRECONDITION_FAILED");
    },
  },
  {
    id: "OS-150",
    clause: "a range under the etag of a replaced object is PRECONDITION_FAILED",
    lie: {
      says: "a range ignores its condition",
      tell: askingGet(({ range, ifMatch, signal }) =>
        range === undefined ? { signal, ...(ifMatch === undefined ? {} : { ifMatch }) } : { range, signal },
      ),
    },
    async run({ store }) {
      const etag = await seed(store, "k", "one");
      await seed(store, "k", "two!", { mode: "overwrite" });
      const range = { offset: 0, length: 1 };
      await assertRejects(store.get("k", { range, ifMatch: etag, signal: open }), "PRECONDITION_FAILED");
    },
  },
  {
    id: "OS-151",
    clause: "a get under a condition where nothing is is NOT_FOUND",
    lie: {
      says: "a condition on nothing is a failed one",
      tell: onGet(({ key, o, real }) =>
        real.get(key, o).catch((error: unknown) => {
          const absent = error instanceof ObjectStoreError && error.code === "NOT_FOUND" && o.ifMatch !== undefined;
          throw absent ? new ObjectStoreError("PRECONDITION_FAILED", "it is gone") : error;
        }),
      ),
    },
    async run({ store }) {
      await assertRejects(store.get("nothing", { ifMatch: "x", signal: open }), "NOT_FOUND");
    },
  },
  {
    id: "OS-152",
    clause: "another handle's head sees a put at once, also after it saw nothing",
    lie: {
      says: "a handle remembers that nothing was there",
      tell: (real) => {
        const absent = new Set<string>();
        return {
          async put(key, body, o) {
            absent.delete(key);
            return real.put(key, body, o);
          },
          async head(key, o) {
            if (absent.has(key)) return null;
            const info = await real.head(key, o);
            if (info === null) absent.add(key);
            return info;
          },
        };
      },
    },
    async run({ store, other }) {
      assert.equal(await headOf(other, "k"), null);
      const etag = await seed(store, "k", "v");
      assert.equal((await headOf(other, "k"))?.etag, etag);
    },
  },
  {
    id: "OS-153",
    clause: "another handle's get sees an overwrite at once, also after it read the old object",
    lie: {
      says: "a handle remembers what it read",
      tell: (real) => {
        const read = new Map<string, { bytes: Uint8Array; info: ObjectInfo }>();
        return {
          async put(key, body, o) {
            read.delete(key);
            return real.put(key, body, o);
          },
          async get(key, o) {
            if (o.range !== undefined || o.ifMatch !== undefined) return real.get(key, o);
            const before = (await real.head(key, o)) === null ? undefined : read.get(key);
            const answer = before ?? (await real.get(key, o));
            read.set(key, { ...answer, bytes: answer.bytes.slice() });
            return answer;
          },
        };
      },
    },
    async run({ store, other }) {
      await seed(store, "k", "one");
      assert.equal(await readText(other, "k"), "one");
      await seed(store, "k", "two!", { mode: "overwrite" });
      assert.equal(await readText(other, "k"), "two!");
    },
  },
  {
    id: "OS-154",
    clause: "another handle's head sees a delete at once, also after it saw the object",
    lie: {
      says: "a handle remembers what it saw",
      tell: (real) => {
        const seen = new Map<string, ObjectInfo>();
        return {
          async put(key, body, o) {
            seen.delete(key);
            return real.put(key, body, o);
          },
          async delete(key, o) {
            seen.delete(key);
            await real.delete(key, o);
          },
          async head(key, o) {
            const info = await real.head(key, o);
            if (info !== null) seen.set(key, info);
            return info ?? seen.get(key) ?? null;
          },
        };
      },
    },
    async run({ store, other }) {
      await seed(store, "k", "v");
      assert.notEqual(await headOf(other, "k"), null);
      await remove(store, "k");
      assert.equal(await headOf(other, "k"), null);
    },
  },
  {
    id: "OS-155",
    clause: "reads at the same time give each its own object",
    lie: {
      says: "reads at the same time share their answer",
      tell: (real) => {
        let running = 0;
        let last: Awaited<ReturnType<typeof real.get>> | null = null;
        return {
          async get(key, o) {
            const crowded = ++running > 6;
            try {
              const answer = await real.get(key, o);
              const shared = crowded && last !== null && o.range === undefined ? last : answer;
              last = answer;
              return { bytes: shared.bytes.slice(), info: shared.info };
            } finally {
              running--;
            }
          },
        };
      },
    },
    async run({ store }) {
      const keys = Array.from({ length: 12 }, (_, i) => `k/${i}`);
      for (const key of keys) await put(store, key, `of ${key}`, "overwrite");
      const texts = await Promise.all(keys.map((key) => readText(store, key)));
      assert.deepEqual(
        texts,
        keys.map((key) => `of ${key}`),
      );
    },
  },
  {
    id: "OS-156",
    clause: "ranges of one object read at the same time are each their own",
    lie: {
      says: "ranges at the same time go on where the last one ended",
      tell: (real) => {
        let running = 0;
        return {
          async get(key, o) {
            const crowded = ++running > 4 && isOffset(o.range) && o.range.offset > 4;
            try {
              const range = o.range as Offset;
              return await real.get(key, crowded ? { ...o, range: { ...range, offset: range.offset - 1 } } : o);
            } finally {
              running--;
            }
          },
        };
      },
    },
    async run({ store }) {
      await seed(store, "k", "abcdefghij");
      const letters = await Promise.all(Array.from({ length: 10 }, (_, i) => rangeText(store, "k", i, 1)));
      assert.equal(letters.join(""), "abcdefghij");
    },
  },
  {
    id: "OS-157",
    clause: "the time of an object is in whole milliseconds since 1970",
    lie: {
      says: "times are in seconds",
      tell: (real) => {
        const seconds = (info: ObjectInfo): ObjectInfo => ({
          ...info,
          modifiedAtMs: Math.floor(info.modifiedAtMs / 1000),
        });
        return {
          async get(key, o) {
            const { bytes, info } = await real.get(key, o);
            return { bytes, info: seconds(info) };
          },
          async head(key, o) {
            const info = await real.head(key, o);
            return info && seconds(info);
          },
        };
      },
    },
    async run({ store }) {
      await seed(store, "k", "v");
      const time = (await headOf(store, "k"))?.modifiedAtMs ?? 0;
      ok(Number.isSafeInteger(time) && time > 1e12, String(time));
    },
  },
  {
    id: "OS-158",
    clause: "reading changes nothing: the etag stays the same",
    lie: {
      says: "an object has another etag once it was read",
      tell: (real) => {
        const read = new Set<string>();
        return {
          async get(key, o) {
            read.add(key);
            return real.get(key, o);
          },
          async head(key, o) {
            const info = await real.head(key, o);
            return info && read.has(key) && key === "read" ? { ...info, etag: `${info.etag}-read` } : info;
          },
        };
      },
    },
    async run({ store }) {
      const etag = await seed(store, "read", "v");
      await readText(store, "read");
      assert.equal((await headOf(store, "read"))?.etag, etag);
    },
  },
];
