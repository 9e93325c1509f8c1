import assert from "node:assert/strict";
import { ObjectStoreError, type ObjectInfo, type ObjectStore } from "@holdfast/object-store";
import { all } from "../lies.js";
import { ok, assertRejects, headOf, infosOf, inByteOrder, keysOf, open, put, remove, seed } from "../support.js";
import type { Case } from "../types.js";

// "-" and "." sort before "/", "0" after it.

const fill = async (store: ObjectStore, keys: readonly string[]): Promise<void> => {
  await Promise.all(keys.map((key) => put(store, key, key, "overwrite")));
};
const numbered = (count: number): string[] =>
  Array.from({ length: count }, (_, i) => `n/${String(i).padStart(4, "0")}`);

/** A listing that pages by position, over whatever is there at the moment of each page. */
const byPosition =
  (count: (before: number, now: number) => number) =>
  (real: ObjectStore): Partial<ObjectStore> => ({
    async *list(o) {
      const first = await all(real.list(o));
      if (first.length > 100) {
        yield* first;
        return;
      }
      let keys = first;
      for (let at = 0; at < keys.length; at++) {
        const item = keys[at];
        if (item !== undefined) yield item;
        const now = await all(real.list(o));
        at += count(keys.length, now.length);
        keys = now;
      }
    },
  });

/** Listings of what changes meanwhile, and listings beside each other. */
export const listMovingCases: readonly Case[] = [
  {
    id: "OS-191",
    clause: "an overwritten object is listed once, as it is now",
    lie: {
      says: "a listing shows an object as it was first",
      tell: (real) => {
        const first = new Map<string, ObjectInfo>();
        return {
          async *list(o) {
            for await (const info of real.list(o)) {
              const old = first.get(info.key);
              yield old !== undefined && (await real.head(info.key, o)) !== null ? old : info;
            }
          },
          async put(key, body, o) {
            const result = await real.put(key, body, o);
            const info =
              result.outcome === "created" && !first.has(key) ? await real.head(key, { signal: open }) : null;
            if (info !== null) first.set(key, { ...info, metadata: {} });
            return result;
          },
          async delete(key, o) {
            first.delete(key);
            await real.delete(key, o);
          },
        };
      },
    },
    async run({ store }) {
      await seed(store, "k", "one");
      await seed(store, "k", "another", { mode: "overwrite" });
      assert.deepEqual(
        (await infosOf(store)).map(({ key, size }) => [key, size]),
        [["k", 7]],
      );
    },
  },
  {
    id: "OS-192",
    clause: "what was created is listed at once",
    lie: {
      says: "the newest object is listed after the next put",
      tell: (real) => {
        let newest = "";
        return {
          async put(key, body, o) {
            const result = await real.put(key, body, o);
            if (result.outcome === "created" && o.mode === "create") newest = key;
            return result;
          },
          async *list(o) {
            for await (const info of real.list(o)) if (info.key !== newest || info.key.length > 12) yield info;
          },
        };
      },
    },
    async run({ store }) {
      await seed(store, "a", "v");
      await seed(store, "b", "v");
      assert.deepEqual(await keysOf(store), ["a", "b"]);
    },
  },
  {
    id: "OS-193",
    clause: "another handle's listing sees a put at once, also after it listed",
    lie: {
      says: "a handle remembers a whole listing until it puts itself",
      tell: (real) => {
        let known: ObjectInfo[] | null = null;
        return {
          put(key, body, o) {
            known = null;
            return real.put(key, body, o);
          },
          delete(key, o) {
            known = null;
            return real.delete(key, o);
          },
          async *list(o) {
            if (o.prefix !== "" || o.limit !== undefined || o.startAfter !== undefined) {
              yield* real.list(o);
              return;
            }
            known ??= await all(real.list(o));
            yield* known;
          },
        };
      },
    },
    async run({ store, other }) {
      assert.deepEqual(await keysOf(other), []);
      await seed(store, "k", "v");
      assert.deepEqual(await keysOf(other), ["k"]);
    },
  },
  {
    id: "OS-194",
    clause: "objects deleted during a listing do not hide others",
    lie: {
      says: "pages by position skip after a delete",
      tell: byPosition((before, now) => Math.max(0, before - now)),
    },
    async run({ store }) {
      const keys = numbered(12);
      await fill(store, keys);
      const seen: string[] = [];
      for await (const { key } of store.list({ prefix: "n/", signal: open })) {
        seen.push(key);
        if (seen.length === 3) await remove(store, "n/0000");
      }
      assert.deepEqual(
        keys.slice(1).filter((key) => !seen.includes(key)),
        [],
      );
    },
  },
  {
    id: "OS-195",
    clause: "objects created during a listing do not make others come twice",
    lie: { says: "pages by position repeat after a put", tell: byPosition((before, now) => (now > before ? -1 : 0)) },
    async run({ store }) {
      await fill(store, numbered(12));
      const seen: string[] = [];
      for await (const { key } of store.list({ prefix: "n/", signal: open })) {
        seen.push(key);
        if (seen.length === 3) await seed(store, "n/", "new");
        ok(seen.length < 50, "the listing does not end");
      }
      assert.deepEqual(seen, inByteOrder([...new Set(seen)]));
    },
  },
  {
    id: "OS-196",
    clause: "a listing may be left early",
    lie: {
      says: "a listing that is left early is an error",
      tell: (real) => ({
        async *list(o) {
          let whole = false;
          try {
            yield* real.list(o);
            whole = true;
          } finally {
            if (!whole && !o.signal.aborted && o.limit === undefined) throw new Error("not read to its end");
          }
        },
      }),
    },
    async run({ store }) {
      await fill(store, numbered(8));
      for await (const { key } of store.list({ prefix: "n/", signal: open })) if (key === "n/0002") break;
      assert.equal((await headOf(store, "n/0007"))?.size, 6);
    },
  },
  {
    id: "OS-197",
    clause: "a new listing begins anew after one that was left early",
    lie: {
      says: "a listing goes on where the last one was left",
      tell: (real) => {
        let left = "";
        return {
          async *list(o) {
            const from = o.startAfter ?? (left === "" ? undefined : left);
            for await (const info of real.list(from === undefined ? o : { ...o, startAfter: from })) {
              left = o.limit === undefined ? info.key : "";
              yield info;
            }
            left = "";
          },
        };
      },
    },
    async run({ store }) {
      await fill(store, numbered(8));
      for await (const { key } of store.list({ prefix: "n/", signal: open })) if (key === "n/0002") break;
      assert.deepEqual(await keysOf(store), numbered(8));
    },
  },
  {
    id: "OS-198",
    clause: "listings at the same time do not disturb each other",
    lie: {
      says: "listings at the same time share their pages",
      tell: (real) => {
        let running = 0;
        return {
          async *list(o) {
            const second = ++running > 1;
            try {
              const infos = await all(real.list(o));
              yield* second ? infos.filter((_, i) => i % 2 === 0) : infos;
            } finally {
              running--;
            }
          },
        };
      },
    },
    async run({ store }) {
      await fill(store, numbered(8));
      const both = await Promise.all([keysOf(store, { prefix: "n/" }), keysOf(store, { prefix: "n/" })]);
      assert.deepEqual(both, [numbered(8), numbered(8)]);
    },
  },
  {
    id: "OS-199",
    clause: "refused arguments come out of the iteration, not out of the call",
    lie: {
      says: "list throws before it is iterated",
      tell: (real) => ({
        list(o) {
          if (o.limit === -7) throw new ObjectStoreError("INVALID_RANGE", "a negative limit");
          return real.list(o);
        },
      }),
    },
    async run({ store }) {
      const listing = store.list({ prefix: "", limit: -7, signal: open });
      await assertRejects(all(listing), "INVALID_RANGE");
    },
  },
  {
    id: "OS-200",
    clause: "nothing is asked before the first item is",
    lie: {
      says: "a listing is made when it is asked for",
      tell: (real) => ({
        list(o) {
          if (o.prefix !== "later/") return real.list(o);
          const infos = all(real.list(o));
          return (async function* () {
            yield* await infos;
          })();
        },
      }),
    },
    async run({ store }) {
      const listing = store.list({ prefix: "later/", signal: open });
      await seed(store, "later/k", "v");
      assert.deepEqual(
        (await all(listing)).map(({ key }) => key),
        ["later/k"],
      );
    },
  },
  {
    id: "OS-201",
    clause: "a listing changes nothing: the objects are the same afterwards",
    lie: {
      says: "a listing touches what it lists",
      tell: (real) => ({
        async *list(o) {
          for await (const info of real.list(o)) {
            if (info.key === "touched") {
              const { bytes } = await real.get(info.key, { signal: o.signal });
              await real.put(info.key, bytes, { mode: "overwrite", signal: o.signal });
            }
            yield info;
          }
        },
      }),
    },
    async run({ store }) {
      const etag = await seed(store, "touched", "v");
      await keysOf(store);
      assert.equal((await headOf(store, "touched"))?.etag, etag);
    },
  },
];
