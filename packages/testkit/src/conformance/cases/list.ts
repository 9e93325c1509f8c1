import assert from "node:assert/strict";
import { ObjectStoreError, type ObjectStore } from "@holdfast/object-store";
import { all, askingList, onList } from "../lies.js";
import { infosOf, inByteOrder, keysOf, put, seed } from "../support.js";
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

/** What a listing has, and in which order. */
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
];
