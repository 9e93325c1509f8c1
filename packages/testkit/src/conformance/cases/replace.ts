import assert from "node:assert/strict";
import { bodySize, type Body, type ObjectInfo } from "@holdfast/object-store";
import { failed, onDelete, onList, onPut } from "../lies.js";
import { assertAbsent, headOf, keysOf, open, readText, remove, seed, textOf } from "../support.js";
import type { Case } from "../types.js";

const concat = (a: Uint8Array, b: Uint8Array): Uint8Array => Uint8Array.of(...a, ...b);
const isStream = (body: Body): boolean => !(body instanceof Uint8Array);

/** What an overwrite and a delete leave. */
export const replaceCases: readonly Case[] = [
  {
    id: "OS-020",
    clause: "overwrite replaces the bytes",
    lie: {
      says: "an overwrite with as many bytes changes nothing",
      tell: onPut(async ({ key, body, o, real }) => {
        const there = await real.head(key, o).catch(() => null);
        const same = o.mode === "overwrite" && there?.size === bodySize(body) && there.size > 0;
        return same ? { outcome: "created", etag: there.etag } : real.put(key, body, o);
      }),
    },
    async run({ store }) {
      await seed(store, "k", "one");
      await seed(store, "k", "two", { mode: "overwrite" });
      assert.equal(await readText(store, "k"), "two");
    },
  },
  {
    id: "OS-021",
    clause: "overwrite with less leaves nothing of the longer object",
    lie: {
      says: "the end of a longer object stays behind a shorter one",
      tell: onPut(async ({ key, body, o, real }) => {
        const there = o.mode === "overwrite" ? await real.get(key, { signal: o.signal }).catch(() => null) : null;
        if (there === null || !(body instanceof Uint8Array) || body.length >= there.bytes.length) {
          return real.put(key, body, o);
        }
        return real.put(key, concat(body, there.bytes.subarray(body.length)), o);
      }),
    },
    async run({ store }) {
      await seed(store, "k", "a long one");
      await seed(store, "k", "short", { mode: "overwrite" });
      assert.equal(await readText(store, "k"), "short");
    },
  },
  {
    id: "OS-022",
    clause: "an overwrite with other bytes has another etag",
    lie: {
      says: "the etag is made of key and size",
      tell: (real) => {
        const made = (info: ObjectInfo): ObjectInfo => ({ ...info, etag: `of-${info.size}` });
        const real2 = async (key: string, etag: string): Promise<string> => {
          const info = await real.head(key, { signal: open });
          return info !== null && etag === made(info).etag ? info.etag : "none";
        };
        return {
          async put(key, body, o) {
            const mode = typeof o.mode === "object" ? { ifMatch: await real2(key, o.mode.ifMatch) } : o.mode;
            const result = await real.put(key, body, { ...o, mode });
            if (result.outcome === "created") return { ...result, etag: `of-${bodySize(body)}` };
            return result.outcome === "exists" ? { ...result, info: made(result.info) } : result;
          },
          async get(key, o) {
            const ifMatch = o.ifMatch === undefined ? {} : { ifMatch: await real2(key, o.ifMatch) };
            const { bytes, info } = await real.get(key, { ...o, ...ifMatch });
            return { bytes, info: made(info) };
          },
          async head(key, o) {
            const info = await real.head(key, o);
            return info && made(info);
          },
          async *list(o) {
            for await (const info of real.list(o)) yield made(info);
          },
        };
      },
    },
    async run({ store }) {
      const first = await seed(store, "k", "one");
      assert.notEqual(await seed(store, "k", "two", { mode: "overwrite" }), first);
    },
  },
  {
    id: "OS-023",
    clause: "overwrite of a key that holds nothing creates it",
    lie: {
      says: "there must be something to overwrite",
      tell: onPut(async ({ key, body, o, real }) => {
        const nothing = o.mode === "overwrite" && (await real.head(key, o).catch(() => null)) === null;
        return nothing && !isStream(body)
          ? failed(Object.assign(new Error("nothing"), { code: "NOT_FOUND" }))
          : real.put(key, body, o);
      }),
    },
    async run({ store }) {
      await seed(store, "k", "v", { mode: "overwrite" });
      assert.equal(await readText(store, "k"), "v");
    },
  },
  {
    id: "OS-024",
    clause: "the etag of an overwrite is the etag that head then tells",
    lie: {
      says: "an overwrite answers with the etag of what it replaced",
      tell: onPut(async ({ key, body, o, real }) => {
        const there = o.mode === "overwrite" ? await real.head(key, o).catch(() => null) : null;
        const result = await real.put(key, body, o);
        return result.outcome === "created" && there !== null ? { ...result, etag: there.etag } : result;
      }),
    },
    async run({ store }) {
      await seed(store, "k", "one");
      const etag = await seed(store, "k", "and two", { mode: "overwrite" });
      assert.equal((await headOf(store, "k"))?.etag, etag);
    },
  },
  {
    id: "OS-025",
    clause: "two keys with the same bytes are two objects",
    lie: {
      says: "the same bytes are kept once, and go with the first delete",
      tell: (real) => {
        const places = new Map<string, Set<string>>();
        return {
          async put(key, body, o) {
            const result = await real.put(key, body, o);
            if (result.outcome === "created" && body instanceof Uint8Array && body.length < 100) {
              const content = textOf(body);
              places.set(content, (places.get(content) ?? new Set()).add(key));
            }
            return result;
          },
          async delete(key, o) {
            const there = await real.get(key, { signal: o.signal }).catch(() => null);
            const content = there === null ? "" : textOf(there.bytes);
            if (content === "the same") for (const one of places.get(content) ?? []) await real.delete(one, o);
            await real.delete(key, o);
          },
        };
      },
    },
    async run({ store }) {
      await seed(store, "a", "the same");
      await seed(store, "b", "the same");
      await remove(store, "a");
      assert.equal(await readText(store, "b"), "the same");
    },
  },
  {
    id: "OS-026",
    clause: "a deleted object is gone for head and get",
    lie: { says: "a delete does nothing", tell: onDelete(() => Promise.resolve()) },
    async run({ store }) {
      await seed(store, "k", "v");
      await remove(store, "k");
      await assertAbsent(store, "k");
    },
  },
  {
    id: "OS-027",
    clause: "a deleted object is gone from listings",
    lie: {
      says: "a listing shows what was deleted last",
      tell: (real) => {
        let gone: ObjectInfo | null = null;
        return {
          async delete(key, o) {
            gone = await real.head(key, o);
            await real.delete(key, o);
          },
          ...onList((infos, o) => (gone?.key.startsWith(o.prefix) === true ? [...infos, gone] : infos))(real),
        };
      },
    },
    async run({ store }) {
      await seed(store, "k", "v");
      await seed(store, "l", "v");
      await remove(store, "k");
      assert.deepEqual(await keysOf(store), ["l"]);
    },
  },
  {
    id: "OS-028",
    clause: "deleting what is not there is success",
    lie: {
      says: "nothing to delete is NOT_FOUND",
      tell: onDelete(async ({ key, o, real }) => {
        if ((await real.head(key, o)) === null) throw Object.assign(new Error("nothing"), { code: "NOT_FOUND" });
        await real.delete(key, o);
      }),
    },
    async run({ store }) {
      await remove(store, "never there");
      await seed(store, "k", "v");
      await remove(store, "k");
      await remove(store, "k");
    },
  },
  {
    id: "OS-029",
    clause: "a deleted key can be created anew",
    lie: {
      says: "the name of a deleted object stays taken",
      tell: (real) => {
        const tombs = new Map<string, ObjectInfo>();
        return {
          async delete(key, o) {
            const info = await real.head(key, o);
            if (info !== null) tombs.set(key, info);
            await real.delete(key, o);
          },
          async put(key, body, o) {
            const tomb = o.mode === "create" ? tombs.get(key) : undefined;
            return tomb === undefined ? real.put(key, body, o) : { outcome: "exists", info: tomb };
          },
        };
      },
    },
    async run({ store }) {
      await seed(store, "k", "one");
      await remove(store, "k");
      await seed(store, "k", "two");
      assert.equal(await readText(store, "k"), "two");
    },
  },
  {
    id: "OS-030",
    clause: "an object of other bytes that takes a deleted one's place has another etag",
    lie: {
      says: "etags count from the start again after a delete",
      tell: (real) => {
        const versions = new Map<string, number>();
        const made = (info: ObjectInfo): ObjectInfo => ({ ...info, etag: `v${versions.get(info.key) ?? 0}` });
        const theirs = async (key: string, etag: string): Promise<string> => {
          const info = await real.head(key, { signal: open });
          return info !== null && made(info).etag === etag ? info.etag : "none";
        };
        return {
          async put(key, body, o) {
            const mode = typeof o.mode === "object" ? { ifMatch: await theirs(key, o.mode.ifMatch) } : o.mode;
            const result = await real.put(key, body, { ...o, mode });
            if (result.outcome === "exists") return { ...result, info: made(result.info) };
            if (result.outcome !== "created") return result;
            versions.set(key, (versions.get(key) ?? 0) + 1);
            return { ...result, etag: `v${versions.get(key) ?? 0}` };
          },
          async get(key, o) {
            const ifMatch = o.ifMatch === undefined ? {} : { ifMatch: await theirs(key, o.ifMatch) };
            const { bytes, info } = await real.get(key, { ...o, ...ifMatch });
            return { bytes, info: made(info) };
          },
          async head(key, o) {
            const info = await real.head(key, o);
            return info && made(info);
          },
          async *list(o) {
            for await (const info of real.list(o)) yield made(info);
          },
          delete(key, o) {
            versions.delete(key);
            return real.delete(key, o);
          },
        };
      },
    },
    async run({ store }) {
      const first = await seed(store, "k", "one");
      await remove(store, "k");
      assert.notEqual(await seed(store, "k", "two"), first);
    },
  },
];
