import assert from "node:assert/strict";
import { ObjectStoreError, type ObjectInfo, type ObjectStore } from "@holdfast/object-store";
import { all, askingList, onList } from "../lies.js";
import { ok, assertRejects, headOf, infosOf, inByteOrder, keysOf, open, put, remove, seed } from "../support.js";
import type { Case, CasePlace } from "../types.js";

type ListArgs = Parameters<ObjectStore["list"]>[0];

// "-" and "." sort before "/", "0" after it.
const plain = ["A", "a", "a-", "a-b", "a.b", "a/", "a/b", "a/b/c", "a//b", "a0", "ab", "b", "b/c"];
const beyond = ["z", "\u{e000}x", "\uff5e", "😀", "é"];

const fill = async (store: ObjectStore, keys: readonly string[]): Promise<void> => {
  await Promise.all(keys.map((key) => put(store, key, key, "overwrite")));
};
const lists =
  (keys: readonly string[], o: Omit<ListArgs, "signal">, expected: readonly string[]) =>
  async ({ store }: CasePlace) => {
    await fill(store, keys);
    assert.deepEqual(await keysOf(store, o), inByteOrder(expected));
  };
const refuses =
  (o: Omit<ListArgs, "signal">, code: string) =>
  async ({ store }: CasePlace) => {
    await seed(store, "k", "v");
    await assertRejects(keysOf(store, o), code);
  };
/** A listing whose refusal of its arguments is passed over. */
const forgiving = (fits: (o: ListArgs) => boolean, instead: (o: ListArgs) => ListArgs) =>
  askingList((o) => (fits(o) ? instead(o) : o));
const without = (o: ListArgs, name: "limit" | "startAfter"): ListArgs => {
  const rest = { ...o };
  Reflect.deleteProperty(rest, name);
  return rest;
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

/** Listings of what stays as it is. */
export const listCases: readonly Case[] = [
  {
    id: "OS-160",
    clause: "keys come in the byte order of their UTF-8",
    lie: {
      says: "keys come as a dictionary has them",
      tell: onList((infos) => [...infos].sort((a, b) => a.key.localeCompare(b.key, "en"))),
    },
    run: lists(plain, { prefix: "" }, plain),
  },
  {
    id: "OS-161",
    clause: "letters outside the basic plane come after all others",
    lie: {
      says: "keys come in the order of UTF-16",
      tell: onList((infos) => [...infos].sort((a, b) => (a.key < b.key ? -1 : 1))),
    },
    run: lists(beyond, { prefix: "" }, beyond),
  },
  {
    id: "OS-162",
    clause: "no key comes twice",
    lie: {
      says: "the last key of a listing comes twice",
      tell: onList((infos) => (infos.length > 3 ? [...infos, ...infos.slice(-1)] : infos)),
    },
    async run({ store }) {
      await fill(store, plain);
      const keys = await keysOf(store);
      assert.equal(new Set(keys).size, keys.length);
    },
  },
  {
    id: "OS-163",
    clause: "a prefix is the start of a key, not a folder",
    lie: {
      says: "a prefix ends where a name ends",
      tell: onList((infos, { prefix }) =>
        infos.filter(
          ({ key }) => prefix === "" || prefix.endsWith("/") || key === prefix || key[prefix.length] === "/",
        ),
      ),
    },
    run: lists(["ab", "abc", "abd/e", "b"], { prefix: "ab" }, ["ab", "abc", "abd/e"]),
  },
  {
    id: "OS-164",
    clause: "a prefix that ends in a slash leaves out the key without it",
    lie: {
      says: "a slash at the end of a prefix is dropped",
      tell: askingList((o) => ({ ...o, prefix: o.prefix.replace(/\/$/, "") })),
    },
    run: lists(["a", "a/", "a/b"], { prefix: "a/" }, ["a/", "a/b"]),
  },
  {
    id: "OS-165",
    clause: "dots in a prefix are dots",
    lie: {
      says: "a prefix is a pattern",
      tell: (real) => ({
        async *list(o) {
          if (!o.prefix.includes(".") || o.limit !== undefined) {
            yield* real.list(o);
            return;
          }
          const pattern = new RegExp(`^${o.prefix.replaceAll(/[^a-z./]/g, "\\$&")}`);
          const infos = await all(real.list({ ...o, prefix: "" }));
          yield* infos.filter(({ key }) => pattern.test(key) || key.startsWith(o.prefix));
        },
      }),
    },
    run: lists(["a.b", "axb", "a.c"], { prefix: "a." }, ["a.b", "a.c"]),
  },
  {
    id: "OS-166",
    clause: "`%`, `_` and `*` in a prefix are letters",
    lie: {
      says: "a prefix is a LIKE",
      tell: (real) => ({
        async *list(o) {
          if (!/[%_*]/.test(o.prefix)) {
            yield* real.list(o);
            return;
          }
          const infos = await all(real.list({ ...o, prefix: "" }));
          yield* infos.filter(({ key }) => key.startsWith(o.prefix) || key.startsWith("a"));
        },
      }),
    },
    async run({ store }) {
      await fill(store, ["a%b", "a_b", "a*b", "axb"]);
      for (const sign of "%_*") assert.deepEqual(await keysOf(store, { prefix: `a${sign}` }), [`a${sign}b`]);
    },
  },
  {
    id: "OS-167",
    clause: "a prefix that is a whole key lists that key",
    lie: {
      says: "a prefix is longer in every key",
      tell: onList((infos, { prefix }) => infos.filter(({ key }) => key !== prefix)),
    },
    run: lists(["k", "l"], { prefix: "k" }, ["k"]),
  },
  {
    id: "OS-168",
    clause: "a prefix of nothing lists nothing",
    lie: {
      says: "a prefix of nothing is an error",
      tell: (real) => ({
        async *list(o) {
          const infos = await all(real.list(o));
          if (infos.length === 0 && o.prefix.includes("none"))
            throw new ObjectStoreError("NOT_FOUND", "no such folder");
          yield* infos;
        },
      }),
    },
    run: lists(["k"], { prefix: "v1/none/" }, []),
  },
  {
    id: "OS-169",
    clause: "an empty store lists nothing",
    lie: {
      says: "an empty store lists a marker",
      tell: onList((infos, { prefix, startAfter }) =>
        infos.length === 0 && prefix === "" && startAfter === undefined
          ? [{ key: ".marker", size: 0, etag: "m", metadata: {}, modifiedAtMs: 0 }]
          : infos,
      ),
    },
    run: lists([], { prefix: "" }, []),
  },
  {
    id: "OS-170",
    clause: "startAfter is exclusive",
    lie: {
      says: "startAfter is inclusive",
      tell: (real) => ({
        async *list(o) {
          const { startAfter } = o;
          const infos = await all(real.list(o));
          const own = startAfter?.startsWith(o.prefix) === true && o.limit === undefined;
          const info = own ? await real.head(startAfter, o) : null;
          yield* info === null ? infos : [{ ...info, metadata: {} }, ...infos];
        },
      }),
    },
    run: lists(["a", "b", "c"], { prefix: "", startAfter: "b" }, ["c"]),
  },
  {
    id: "OS-171",
    clause: "startAfter need not exist",
    lie: {
      says: "a startAfter that does not exist is passed over",
      tell: (real) => ({
        async *list(o) {
          const known =
            o.startAfter === undefined || !o.startAfter.startsWith(o.prefix) || (await real.head(o.startAfter, o));
          yield* real.list(known ? o : without(o, "startAfter"));
        },
      }),
    },
    run: lists(["a", "b", "d"], { prefix: "", startAfter: "c" }, ["d"]),
  },
  {
    id: "OS-172",
    clause: "startAfter before the prefix lists all of the prefix",
    lie: {
      says: "a startAfter outside the prefix lists nothing",
      tell: onList((infos, { prefix, startAfter }) => (startAfter !== undefined && startAfter < prefix ? [] : infos)),
    },
    run: lists(["a", "p/1", "p/2"], { prefix: "p/", startAfter: "b" }, ["p/1", "p/2"]),
  },
  {
    id: "OS-173",
    clause: "startAfter behind the prefix lists nothing",
    lie: {
      says: "a startAfter behind the prefix is passed over",
      tell: forgiving(
        ({ prefix, startAfter = "" }) => startAfter > prefix && !startAfter.startsWith(prefix),
        (o) => without(o, "startAfter"),
      ),
    },
    run: lists(["p/1", "p/2"], { prefix: "p/", startAfter: "q" }, []),
  },
  {
    id: "OS-174",
    clause: "startAfter does not leave out keys below the key it names",
    lie: {
      says: "startAfter leaves out what is below it",
      tell: onList((infos, { startAfter }) =>
        infos.filter(({ key }) => startAfter === undefined || !key.startsWith(`${startAfter}/`)),
      ),
    },
    run: lists(["a/b", "a/b/c", "a/c"], { prefix: "a/", startAfter: "a/b" }, ["a/b/c", "a/c"]),
  },
  {
    id: "OS-175",
    clause: "startAfter compares bytes, not UTF-16 units",
    lie: {
      says: "startAfter compares UTF-16 units",
      tell: (real) => ({
        async *list(o) {
          const after = o.startAfter;
          if (after === undefined || !/[\ud800-\uffff]/.test(after)) {
            yield* real.list(o);
            return;
          }
          yield* (await all(real.list(without(o, "startAfter")))).filter(({ key }) => key > after);
        },
      }),
    },
    run: lists(beyond, { prefix: "", startAfter: "\uff5e" }, ["😀"]),
  },
  {
    id: "OS-176",
    clause: "limit is the most that comes",
    lie: {
      says: "limits above 1 let one more through",
      tell: askingList((o) => (o.limit !== undefined && o.limit > 1 ? { ...o, limit: o.limit + 1 } : o)),
    },
    run: lists(plain, { prefix: "", limit: 3 }, inByteOrder(plain).slice(0, 3)),
  },
  {
    id: "OS-177",
    clause: "a limit of 1 lists one",
    lie: {
      says: "a limit of 1 is none",
      tell: forgiving(
        ({ limit }) => limit === 1,
        (o) => without(o, "limit"),
      ),
    },
    run: lists(plain, { prefix: "", limit: 1 }, ["A"]),
  },
  {
    id: "OS-178",
    clause: "a limit above what is there lists all",
    lie: {
      says: "with a limit the last one is missing",
      tell: onList((infos, { limit }) =>
        limit !== undefined && limit > infos.length && infos.length > 3 ? infos.slice(0, -1) : infos,
      ),
    },
    run: lists(plain, { prefix: "", limit: 100 }, plain),
  },
  {
    id: "OS-179",
    clause: "as many come as the limit says, when there are as many",
    lie: {
      says: "pages are shorter than asked for",
      tell: askingList((o) => (o.limit !== undefined && o.limit > 4 ? { ...o, limit: o.limit - 1 } : o)),
    },
    run: lists(plain, { prefix: "", limit: 5 }, inByteOrder(plain).slice(0, 5)),
  },
  {
    id: "OS-180",
    clause: "the limit counts what has the prefix",
    lie: {
      says: "the limit counts what does not have the prefix",
      tell: (real) => ({
        async *list(o) {
          const { limit = Infinity } = o;
          if (o.startAfter !== undefined || limit > 100 || o.prefix === "") {
            yield* real.list(o);
            return;
          }
          const infos = await all(real.list({ ...o, prefix: "" }));
          yield* infos.slice(0, limit).filter(({ key }) => key.startsWith(o.prefix));
        },
      }),
    },
    run: lists(["a", "b", "p/1", "p/2", "p/3"], { prefix: "p/", limit: 2 }, ["p/1", "p/2"]),
  },
  {
    id: "OS-181",
    clause: "limit and startAfter together go on behind the key",
    lie: {
      says: "a page begins one key too late",
      tell: onList((infos, { limit, startAfter }) =>
        limit !== undefined && startAfter !== undefined && limit < 3 ? infos.slice(1) : infos,
      ),
    },
    async run({ store }) {
      await fill(store, plain);
      const sorted = inByteOrder(plain);
      for (const [i, startAfter] of sorted.slice(0, -2).entries()) {
        assert.deepEqual(await keysOf(store, { prefix: "", startAfter, limit: 2 }), sorted.slice(i + 1, i + 3));
      }
    },
  },
  {
    id: "OS-182",
    clause: "more than a thousand objects are all listed",
    lie: { says: "a listing ends after a thousand", tell: onList((infos) => infos.slice(0, 1000)) },
    async run({ store }) {
      const keys = numbered(1010);
      for (let at = 0; at < keys.length; at += 101) await fill(store, keys.slice(at, at + 101));
      assert.deepEqual(await keysOf(store, { prefix: "n/" }), keys);
      assert.deepEqual(await keysOf(store, { prefix: "n/", startAfter: "n/0002", limit: 1003 }), keys.slice(3, 1006));
    },
  },
  {
    id: "OS-183",
    clause: "a limit of 0 is INVALID_RANGE",
    lie: {
      says: "a limit of 0 is none",
      tell: forgiving(
        ({ limit }) => limit === 0,
        (o) => without(o, "limit"),
      ),
    },
    run: refuses({ prefix: "", limit: 0 }, "INVALID_RANGE"),
  },
  {
    id: "OS-184",
    clause: "a limit that is negative is INVALID_RANGE",
    lie: {
      says: "a negative limit is none",
      tell: forgiving(
        ({ limit = 1 }) => limit < 0,
        (o) => without(o, "limit"),
      ),
    },
    run: refuses({ prefix: "", limit: -1 }, "INVALID_RANGE"),
  },
  {
    id: "OS-185",
    clause: "a limit that is no whole number is INVALID_RANGE",
    lie: {
      says: "a limit is rounded",
      tell: forgiving(
        ({ limit = 1 }) => !Number.isInteger(limit),
        (o) => ({ ...o, limit: 2 }),
      ),
    },
    async run(place) {
      await refuses({ prefix: "", limit: 1.5 }, "INVALID_RANGE")(place);
      await assertRejects(keysOf(place.store, { prefix: "", limit: NaN }), "INVALID_RANGE");
    },
  },
  {
    id: "OS-186",
    clause: "a prefix that no key can have is INVALID_KEY",
    lie: {
      says: "a prefix that no key can have lists nothing",
      tell: forgiving(
        ({ prefix }) => prefix.includes("\u0003"),
        (o) => ({ ...o, prefix: "none" }),
      ),
    },
    run: refuses({ prefix: "a\u0003" }, "INVALID_KEY"),
  },
  {
    id: "OS-187",
    clause: "a startAfter that no key can be is INVALID_KEY",
    lie: {
      says: "a startAfter that no key can be is passed over",
      tell: forgiving(
        ({ startAfter }) => startAfter === "\ud800",
        (o) => without(o, "startAfter"),
      ),
    },
    run: refuses({ prefix: "", startAfter: "\ud800" }, "INVALID_KEY"),
  },
  {
    id: "OS-188",
    clause: "a listed etag is the one that head tells",
    lie: {
      says: "etags in listings have quotes",
      tell: onList((infos) => infos.map((info) => ({ ...info, etag: `"${info.etag}"` }))),
    },
    async run({ store }) {
      const etag = await seed(store, "k", "v");
      assert.deepEqual(
        (await infosOf(store)).map((info) => info.etag),
        [etag],
      );
    },
  },
  {
    id: "OS-189",
    clause: "`/` has no meaning: what is below is listed, and no folders are",
    lie: {
      says: "a listing shows folders",
      tell: onList((infos, { prefix, limit }) => {
        const folder = infos.find(({ key }) => prefix === "" && limit === undefined && key.startsWith("tree/"));
        return folder === undefined ? infos : [{ ...folder, key: "tree/", size: 0 }, ...infos.slice(1)];
      }),
    },
    run: lists(["tree/1", "tree/sub/2"], { prefix: "" }, ["tree/1", "tree/sub/2"]),
  },
  {
    id: "OS-190",
    clause: "objects without bytes are listed",
    lie: {
      says: "objects without bytes are no objects in listings",
      tell: onList((infos) => infos.filter(({ size }) => size > 0)),
    },
    async run({ store }) {
      await seed(store, "a", "");
      await seed(store, "b", "v");
      assert.deepEqual(await keysOf(store), ["a", "b"]);
    },
  },
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
