import assert from "node:assert/strict";
import { type ObjectStore } from "@holdfast/object-store";
import { all, askingList, onList } from "../lies.js";
import { assertRejects, inByteOrder, keysOf, put, seed } from "../support.js";
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

/** Where a listing begins and ends. */
export const listPageCases: readonly Case[] = [
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
];
