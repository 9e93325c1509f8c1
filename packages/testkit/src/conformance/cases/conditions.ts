import assert from "node:assert/strict";
import { bodySize, type ObjectInfo, type ObjectStore, type PutResult } from "@holdfast/object-store";
import { onPut } from "../lies.js";
import { count, headOf, open, put, readText, seed, textOf } from "../support.js";
import type { Case, Lie } from "../types.js";

type Put = ObjectStore["put"];
type Args = { key: string; body: Parameters<Put>[1]; o: Parameters<Put>[2]; real: ObjectStore };

/** Lies about one mode; all other puts are honest. */
const onCreate = (says: string, lie: (call: Args) => Promise<PutResult>): Lie => ({
  says,
  tell: onPut((call) => (call.o.mode === "create" ? lie(call) : call.real.put(call.key, call.body, call.o))),
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
const lookThenPut = async (call: Args): Promise<PutResult> => {
  const info = await call.real.head(call.key, call.o).catch(() => null);
  await Promise.resolve();
  return info === null ? overwrite(call) : { outcome: "exists", info };
};
/** Sixteen puts at once, from two handles in turn. */
const race = (store: ObjectStore, other: ObjectStore, run: (store: ObjectStore, i: number) => Promise<PutResult>) =>
  Promise.all(Array.from({ length: 16 }, (_, i) => run(i % 2 === 0 ? store : other, i)));

/** Puts that create only where nothing is, and races. */
export const conditionCases: readonly Case[] = [
  {
    id: "OS-070",
    clause: "create on a taken key writes nothing",
    lie: onCreate("create ignores its condition", overwrite),
    async run({ store, other }) {
      if (!store.capabilities.create) return;
      await seed(store, "k", "first");
      assert.equal((await put(other, "k", "later one")).outcome, "exists");
      assert.equal(await readText(store, "k"), "first");
    },
  },
  {
    id: "OS-071",
    clause: "`exists` tells the size of what is there",
    lie: onExists("`exists` tells the size of what was to be put", "create", (info, { body }) => ({
      ...info,
      size: bodySize(body),
    })),
    async run({ store }) {
      if (!store.capabilities.create) return;
      await seed(store, "k", "first");
      const result = await put(store, "k", "later one");
      assert.equal(result.outcome, "exists");
      assert.equal(result.info.size, 5);
    },
  },
  {
    id: "OS-072",
    clause: "`exists` tells the etag of what is there",
    lie: onExists("`exists` tells no etag", "create", (info) => ({ ...info, etag: "" })),
    async run({ store }) {
      if (!store.capabilities.create) return;
      const etag = await seed(store, "k", "first");
      const result = await put(store, "k", "later one");
      assert.equal(result.outcome, "exists");
      assert.equal(result.info.etag, etag);
    },
  },
  {
    id: "OS-073",
    clause: "`exists` tells the metadata of what is there",
    lie: onExists("`exists` tells no metadata", "create", (info) => ({ ...info, metadata: {} })),
    async run({ store }) {
      const { create, metadata } = store.capabilities;
      if (!create || !metadata) return;
      await seed(store, "k", "first", { metadata: { a: "1" } });
      const result = await put(store, "k", "other", "create", { metadata: { a: "2" } });
      assert.equal(result.outcome, "exists");
      assert.deepEqual(result.info.metadata, { a: "1" });
    },
  },
  {
    id: "OS-074",
    clause: "create sees what another handle has created",
    lie: {
      says: "a handle knows only its own objects",
      tell: (real) => {
        const mine = new Set<string>();
        return {
          async put(key, body, o) {
            const result = await real.put(
              key,
              body,
              o.mode === "create" && !mine.has(key) ? { ...o, mode: "overwrite" } : o,
            );
            if (result.outcome === "created") mine.add(key);
            return result;
          },
          async delete(key, o) {
            mine.delete(key);
            await real.delete(key, o);
          },
        };
      },
    },
    async run({ store, other }) {
      if (!store.capabilities.create) return;
      await seed(store, "k", "first");
      assert.equal((await put(other, "k", "second")).outcome, "exists");
    },
  },
  {
    id: "OS-075",
    clause: "of creates racing in one handle exactly one is `created`",
    lie: onCreate("create looks first and then writes", lookThenPut),
    async run({ store }) {
      if (!store.capabilities.create) return;
      const results = await race(store, store, (one, i) => put(one, "k", `by ${i}`));
      assert.equal(count(results, "created"), 1);
      assert.equal(count(results, "exists"), 15);
    },
  },
  {
    id: "OS-076",
    clause: "of creates racing in two handles exactly one is `created`",
    lie: {
      says: "create looks first and then writes, one after the other in a handle",
      tell: (real) => {
        let before: Promise<unknown> = Promise.resolve();
        return {
          put(key, body, o) {
            if (o.mode !== "create") return real.put(key, body, o);
            const mine = before.then(() => lookThenPut({ key, body, o, real }));
            before = mine;
            return mine;
          },
        };
      },
    },
    async run({ store, other }) {
      if (!store.capabilities.create) return;
      for (let round = 0; round < 3; round++) {
        const results = await race(store, other, (one, i) => put(one, `k/${round}`, `by ${i}`));
        assert.equal(count(results, "created"), 1);
        assert.equal(count(results, "exists"), 15);
      }
    },
  },
  {
    id: "OS-077",
    clause: "a race of creates leaves the winner's bytes with the winner's metadata",
    lie: onCreate("a refused create leaves its metadata", async (call) => {
      const { key, o, real } = call;
      const result = await real.put(key, call.body, o);
      if (result.outcome === "exists" && o.metadata !== undefined) {
        const { bytes } = await real.get(key, { signal: o.signal });
        await real.put(key, bytes, { ...o, mode: "overwrite" });
      }
      return result;
    }),
    async run({ store, other }) {
      const { create, metadata } = store.capabilities;
      if (!create || !metadata) return;
      const results = await race(store, other, (one, i) =>
        put(one, "k", `by ${i}`.repeat(100), "create", { metadata: { by: String(i) } }),
      );
      const winner = results.findIndex((result) => result.outcome === "created");
      const { bytes, info } = await store.get("k", { signal: open });
      assert.equal(textOf(bytes), `by ${winner}`.repeat(100));
      assert.deepEqual(info.metadata, { by: String(winner) });
    },
  },
  {
    id: "OS-078",
    clause: "the losers of a race are told of the winner's object",
    lie: {
      says: "a create refused within the same moment is told of itself",
      tell: (real) => {
        let running = 0;
        return {
          async put(key, body, o) {
            const crowded = ++running > 1;
            const result = await real.put(key, body, o);
            running--;
            const lie = crowded && result.outcome === "exists";
            return lie
              ? { ...result, info: { ...result.info, modifiedAtMs: 1, etag: `${result.info.etag}?` } }
              : result;
          },
        };
      },
    },
    async run({ store, other }) {
      if (!store.capabilities.create) return;
      const results = await race(store, other, (one, i) => put(one, "k", `by ${i}`));
      const info = await headOf(store, "k");
      for (const result of results) if (result.outcome === "exists") assert.equal(result.info.etag, info?.etag);
    },
  },
  {
    id: "OS-079",
    clause: "racing overwrites leave one of them, its bytes with its metadata",
    lie: {
      says: "an overwrite sets bytes and metadata one after the other",
      tell: onPut(async (call) => {
        const { key, body, o, real } = call;
        const slow = Number(o.metadata?.["by"] ?? 1) % 2 === 0;
        if (o.mode !== "overwrite" || o.metadata === undefined) return real.put(key, body, o);
        const first = await real.put(key, body, { mode: "overwrite", signal: o.signal });
        if (first.outcome !== "created") return real.put(key, body, o);
        for (let turn = 0; slow && turn < 30; turn++) await Promise.resolve();
        const { bytes } = await real.get(key, { signal: o.signal });
        return real.put(key, bytes, o);
      }),
    },
    async run({ store, other }) {
      if (!store.capabilities.metadata) return;
      const results = await race(store, other, (one, i) =>
        put(one, "k", `by ${i} `.repeat(100), "overwrite", { metadata: { by: String(i) } }),
      );
      assert.equal(count(results, "created"), 16);
      const { bytes, info } = await store.get("k", { signal: open });
      assert.equal(textOf(bytes), `by ${info.metadata["by"] ?? "?"} `.repeat(100));
    },
  },
  {
    id: "OS-080",
    clause: "racing creates of many keys have one winner each",
    lie: {
      says: "a busy store lets a create through unseen",
      tell: (real) => {
        let running = 0;
        return {
          async put(key, body, o) {
            const busy = ++running > 20;
            const result = await real.put(key, body, busy && o.mode === "create" ? { ...o, mode: "overwrite" } : o);
            running--;
            return result;
          },
        };
      },
    },
    async run({ store, other }) {
      if (!store.capabilities.create) return;
      const keys = Array.from({ length: 32 }, (_, i) => `race/${i}`);
      const results = await Promise.all(
        keys.map(async (key) => Promise.all([put(store, key, "a"), put(other, key, "b")])),
      );
      for (const pair of results) assert.equal(count(pair, "created"), 1);
    },
  },
];
