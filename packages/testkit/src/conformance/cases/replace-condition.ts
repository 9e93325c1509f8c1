import assert from "node:assert/strict";
import { ObjectStoreError, type ObjectInfo, type ObjectStore, type PutResult } from "@holdfast/object-store";
import { failed, onPut } from "../lies.js";
import { assertAbsent, assertFailed, bytesOf, count, headOf, open, put, readText, remove, seed } from "../support.js";
import type { Case, Lie } from "../types.js";

type Put = ObjectStore["put"];
type Args = { key: string; body: Parameters<Put>[1]; o: Parameters<Put>[2]; real: ObjectStore };

const onReplace = (says: string, lie: (call: Args & { etag: string }) => Promise<PutResult>): Lie => ({
  says,
  tell: onPut((call) => {
    const { mode } = call.o;
    return typeof mode === "object" ? lie({ ...call, etag: mode.ifMatch }) : call.real.put(call.key, call.body, call.o);
  }),
});
/** A store that answers `exists` with another info than what is there. */
const onExists = (
  says: string,
  mode: "create" | "ifMatch",
  change: (info: ObjectInfo, call: Args) => ObjectInfo,
): Lie => ({
  says,
  tell: onPut(async (call) => {
    const result = await call.real.put(call.key, call.body, call.o);
    const fits = (typeof call.o.mode === "object" ? "ifMatch" : call.o.mode) === mode;
    return result.outcome === "exists" && fits ? { ...result, info: change(result.info, call) } : result;
  }),
});
const overwrite = ({ key, body, o, real }: Args): Promise<PutResult> =>
  real.put(key, body, { ...o, mode: "overwrite" });
/** Sixteen puts at once, from two handles in turn. */
const race = (store: ObjectStore, other: ObjectStore, run: (store: ObjectStore, i: number) => Promise<PutResult>) =>
  Promise.all(Array.from({ length: 16 }, (_, i) => run(i % 2 === 0 ? store : other, i)));

/** Puts that replace only the object that they name. */
export const replaceConditionCases: readonly Case[] = [
  {
    id: "OS-081",
    clause: "ifMatch replaces the object that it names",
    lie: onReplace("ifMatch never matches", async ({ key, o, real, body, etag }) => {
      const info = await real.head(key, o);
      return info?.etag === etag ? { outcome: "exists", info } : real.put(key, body, o);
    }),
    async run({ store }) {
      if (!store.capabilities.ifMatch) return;
      const first = await seed(store, "k", "one");
      assert.equal((await put(store, "k", "two", { ifMatch: first })).outcome, "created");
      assert.equal(await readText(store, "k"), "two");
    },
  },
  {
    id: "OS-082",
    clause: "ifMatch with the etag of a replaced object writes nothing",
    lie: onReplace("ifMatch is not looked at where something is", async (call) =>
      (await call.real.head(call.key, call.o)) === null ? call.real.put(call.key, call.body, call.o) : overwrite(call),
    ),
    async run({ store }) {
      if (!store.capabilities.ifMatch) return;
      const first = await seed(store, "k", "one");
      await seed(store, "k", "two!", { mode: "overwrite" });
      assert.equal((await put(store, "k", "three", { ifMatch: first })).outcome, "exists");
      assert.equal(await readText(store, "k"), "two!");
    },
  },
  {
    id: "OS-083",
    clause: "a refused ifMatch tells what is there",
    lie: onExists("a refused ifMatch tells the etag that it was given", "ifMatch", (info, { o }) => ({
      ...info,
      etag: typeof o.mode === "object" ? o.mode.ifMatch : info.etag,
    })),
    async run({ store }) {
      if (!store.capabilities.ifMatch) return;
      const first = await seed(store, "k", "one");
      const second = await seed(store, "k", "two!", { mode: "overwrite" });
      const result = await put(store, "k", "three", { ifMatch: first });
      assert.equal(result.outcome, "exists");
      assert.equal(result.info.etag, second);
    },
  },
  {
    id: "OS-084",
    clause: "ifMatch where nothing is writes nothing",
    lie: onReplace("ifMatch creates where nothing is", async (call) =>
      (await call.real.head(call.key, call.o)) === null ? overwrite(call) : call.real.put(call.key, call.body, call.o),
    ),
    async run({ store }) {
      if (!store.capabilities.ifMatch) return;
      assert.equal((await put(store, "k", "v", { ifMatch: "x" })).outcome, "failed");
      await assertAbsent(store, "k");
    },
  },
  {
    id: "OS-085",
    clause: "ifMatch where nothing is is PRECONDITION_FAILED",
    lie: onReplace("ifMatch where nothing is is NOT_FOUND", async ({ key, body, o, real }) => {
      const result = await real.put(key, body, o);
      const absent = result.outcome === "failed" && (await real.head(key, o)) === null;
      return absent ? failed(new ObjectStoreError("NOT_FOUND", "nothing is there")) : result;
    }),
    async run({ store }) {
      if (!store.capabilities.ifMatch) return;
      assertFailed(await put(store, "k", "v", { ifMatch: "x" }), "PRECONDITION_FAILED");
    },
  },
  {
    id: "OS-086",
    clause: "of replacements racing for one etag exactly one is `created`",
    lie: onReplace("ifMatch looks first and then writes", async (call) => {
      const info = await call.real.head(call.key, call.o);
      await Promise.resolve();
      if (info === null) return call.real.put(call.key, call.body, call.o);
      return info.etag === call.etag ? overwrite(call) : { outcome: "exists", info };
    }),
    async run({ store, other }) {
      if (!store.capabilities.ifMatch) return;
      const etag = await seed(store, "k", "0");
      const results = await race(store, other, (one, i) => put(one, "k", `by ${i}`, { ifMatch: etag }));
      assert.equal(count(results, "created"), 1);
    },
  },
  {
    id: "OS-087",
    clause: "ifMatch does not take the object that came after a delete for the one before",
    lie: {
      says: "etags outlive a delete",
      tell: (real) => {
        const deleted = new Map<string, string>();
        return {
          async delete(key, o) {
            const info = await real.head(key, o);
            if (info !== null) deleted.set(key, info.etag);
            await real.delete(key, o);
          },
          put(key, body, o) {
            const { mode } = o;
            const old = typeof mode === "object" && deleted.get(key) === mode.ifMatch;
            return old ? overwrite({ key, body, o, real }) : real.put(key, body, o);
          },
        };
      },
    },
    async run({ store }) {
      if (!store.capabilities.ifMatch) return;
      const first = await seed(store, "k", "one");
      await remove(store, "k");
      await seed(store, "k", "new");
      assert.equal((await put(store, "k", "two", { ifMatch: first })).outcome, "exists");
      assert.equal(await readText(store, "k"), "new");
    },
  },
  {
    id: "OS-088",
    clause: "ifMatch replaces the metadata as a whole",
    lie: onReplace("a replacement keeps the metadata", async (call) => {
      const there = await call.real.head(call.key, call.o);
      const metadata = { ...there?.metadata, ...call.o.metadata };
      return call.real.put(call.key, call.body, { ...call.o, metadata });
    }),
    async run({ store }) {
      const { ifMatch, metadata } = store.capabilities;
      if (!ifMatch || !metadata) return;
      const etag = await seed(store, "k", "one", { metadata: { a: "1" } });
      await seed(store, "k", "two", { mode: { ifMatch: etag }, metadata: { b: "2" } });
      assert.deepEqual((await headOf(store, "k"))?.metadata, { b: "2" });
    },
  },
  {
    id: "OS-089",
    clause: "the etag of a replacement is the one that head then tells",
    lie: onReplace("a replacement answers with the old etag", async ({ key, body, o, real, etag }) => {
      const result = await real.put(key, body, o);
      return result.outcome === "created" ? { ...result, etag } : result;
    }),
    async run({ store }) {
      if (!store.capabilities.ifMatch) return;
      const first = await seed(store, "k", "one");
      const second = await seed(store, "k", "two", { mode: { ifMatch: first } });
      assert.equal((await headOf(store, "k"))?.etag, second);
    },
  },
  {
    id: "OS-090",
    clause: "a chain of replacements, each under the etag of the one before, goes through",
    lie: {
      says: "an object can be replaced under a condition once",
      tell: (real) => {
        const replaced = new Set<string>();
        return {
          async put(key, body, o) {
            const info = typeof o.mode === "object" && replaced.has(key) ? await real.head(key, o) : null;
            if (info !== null) return { outcome: "exists", info };
            const result = await real.put(key, body, o);
            if (result.outcome === "created" && typeof o.mode === "object") replaced.add(key);
            return result;
          },
        };
      },
    },
    async run({ store, other }) {
      if (!store.capabilities.ifMatch) return;
      let etag = await seed(store, "k", "0");
      for (let i = 1; i <= 4; i++) {
        etag = await seed(i % 2 === 0 ? store : other, "k", String(i), { mode: { ifMatch: etag } });
      }
      assert.equal(await readText(store, "k"), "4");
    },
  },
  {
    id: "OS-091",
    clause: "`*` is an etag like any other, not any etag",
    lie: onReplace("ifMatch * matches whatever is there", async (call) =>
      call.etag === "*" && (await call.real.head(call.key, call.o)) !== null
        ? overwrite(call)
        : call.real.put(call.key, call.body, call.o),
    ),
    async run({ store }) {
      if (!store.capabilities.ifMatch) return;
      await seed(store, "k", "one");
      const result = await store.put("k", bytesOf("two"), { mode: { ifMatch: "*" }, signal: open });
      assert.notEqual(result.outcome, "created");
      assert.equal(await readText(store, "k"), "one");
    },
  },
];
