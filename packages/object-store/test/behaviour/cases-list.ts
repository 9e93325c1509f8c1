import assert from "node:assert/strict";
import type { Case } from "./suite.js";
import { assertRejects, create, inByteOrder, infosOf, keysOf, open } from "./support.js";

// "-" and "." sort before "/", "0" after it; U+FF5E sorts before U+1F600 in UTF-8 and after it in UTF-16.
const tricky = [
  "a",
  "a-",
  "a-b",
  "a.b",
  "a/",
  "a/b",
  "a/b/c",
  "a//b",
  "a0",
  "ab",
  "A",
  "b",
  "\uff5e",
  "😀",
  "é",
  "e\u0301",
];

/** Listings. */
export const listCases: readonly Case[] = [
  {
    id: "OS-40",
    clause: "keys come in the byte order of their UTF-8, each once",
    async run({ store }) {
      for (const key of tricky) await create(store, key, key);
      assert.deepEqual(await keysOf(store, { prefix: "" }), inByteOrder(tricky));
    },
  },
  {
    id: "OS-41",
    clause: "a prefix is the start of a key, not a folder",
    async run({ store }) {
      for (const key of tricky) await create(store, key, key);
      for (const prefix of ["a", "a/", "a//", "a/b", "a-", "e", "é", "x", "a/b/c/d"]) {
        const expected = inByteOrder(tricky.filter((key) => key.startsWith(prefix)));
        assert.deepEqual(await keysOf(store, { prefix }), expected, prefix);
      }
    },
  },
  {
    id: "OS-42",
    clause: "startAfter is exclusive, need not exist and need not have the prefix",
    async run({ store }) {
      for (const key of tricky) await create(store, key, key);
      for (const prefix of ["", "a", "a/"]) {
        for (const startAfter of [...tricky, "a/a", "a/b/", "0", "zz", "a/b/c/d", "\u{10ffff}"]) {
          const after = (key: string) => Buffer.compare(Buffer.from(key), Buffer.from(startAfter)) > 0;
          const expected = inByteOrder(tricky.filter((key) => key.startsWith(prefix) && after(key)));
          assert.deepEqual(await keysOf(store, { prefix, startAfter }), expected, `${prefix} after ${startAfter}`);
        }
      }
    },
  },
  {
    id: "OS-43",
    clause: "limit bounds what comes; pages joined by startAfter are the whole listing",
    async run({ store }) {
      for (const key of tricky) await create(store, key, key);
      for (const limit of [1, 3, tricky.length, 100]) {
        const seen: string[] = [];
        for (;;) {
          const last = seen.at(-1);
          const page = await keysOf(store, { prefix: "", limit, ...(last === undefined ? {} : { startAfter: last }) });
          assert.ok(page.length <= limit);
          if (page.length === 0) break;
          seen.push(...page);
        }
        assert.deepEqual(seen, inByteOrder(tricky));
      }
    },
  },
  {
    id: "OS-44",
    clause: "an empty store and a prefix of nothing list nothing",
    async run({ store }) {
      assert.deepEqual(await keysOf(store, { prefix: "" }), []);
      assert.deepEqual(await keysOf(store, { prefix: "v1/none/", startAfter: "v1/none/x", limit: 5 }), []);
    },
  },
  {
    id: "OS-45",
    clause: "a limit that is no whole number above 0 is INVALID_RANGE, a prefix that no key can have is INVALID_KEY",
    async run({ store }) {
      for (const limit of [0, -1, 1.5, NaN]) await assertRejects(keysOf(store, { prefix: "", limit }), "INVALID_RANGE");
      await assertRejects(keysOf(store, { prefix: "a\u0003" }), "INVALID_KEY");
      await assertRejects(keysOf(store, { prefix: "", startAfter: "\ud800" }), "INVALID_KEY");
    },
  },
  {
    id: "OS-46",
    clause: "a listed info is that of head, without metadata",
    async run({ store }) {
      await create(store, "k", "hello", { metadata: { a: "1" } });
      const info = await store.head("k", { signal: open });
      assert.deepEqual(await infosOf(store, { prefix: "" }), [{ ...info, metadata: {} }]);
    },
  },
  {
    id: "OS-47",
    clause: "objects that come and go during a listing do not disturb the others",
    async run({ store }) {
      const keys = Array.from({ length: 30 }, (_, i) => `k/${String(i).padStart(2, "0")}`);
      for (const key of keys) await create(store, key, key);
      const seen: string[] = [];
      for await (const { key } of store.list({ prefix: "k/", signal: open })) {
        seen.push(key);
        if (seen.length === 5) for (const gone of ["k/02", "k/15", "k/29"]) await store.delete(gone, { signal: open });
        if (seen.length === 6) await create(store, "k/20a", "new");
      }
      const stable = keys.filter((key) => !["k/15", "k/29"].includes(key));
      assert.deepEqual(seen, inByteOrder([...new Set(seen)]));
      assert.deepEqual(
        stable.filter((key) => !seen.includes(key)),
        [],
      );
    },
  },
  {
    id: "OS-48",
    clause: "a listing may be left early, and listings may run beside each other",
    async run({ store }) {
      for (let i = 0; i < 10; i++) await create(store, `k/${i}`, "v");
      for await (const { key } of store.list({ prefix: "k/", signal: open })) if (key === "k/3") break;
      const both = await Promise.all([keysOf(store, { prefix: "k/" }), keysOf(store, { prefix: "k/", limit: 4 })]);
      assert.deepEqual(
        both.map((keys) => keys.length),
        [10, 4],
      );
    },
  },
];
