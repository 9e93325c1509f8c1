import assert from "node:assert/strict";
import type { Case } from "./suite.js";
import {
  assertAbsent,
  assertFailed,
  assertRejects,
  bytesOf,
  create,
  inByteOrder,
  keysOf,
  open,
  readText,
} from "./support.js";

const odd = [
  ...["a b", "a+b", "100%", "100%25", "a%2fb", "x#y?z=1", " lead", "trail ", " ", "&amp;", "<&>\"'", "a\\b", "a:b*c|d"],
  ...["dir/", "/", "//", "//a//b", "a/../b", "../../etc/passwd", "./a", "a/.", "..", ".", ".hidden", "...", "a./b."],
  ...["é", "e\u0301", "한국어", "한국어".normalize("NFD"), "😀", "\ufeffbom", "\uff5e"],
  ...["A", "a", "Ab", "aB", "^a", "@", "a@obj", "@obj", "a@more", "x/@/y", ".staging/x", "CON", "nul.txt"],
  ...[
    "x".repeat(1024),
    "é".repeat(512),
    "/".repeat(1024),
    "A".repeat(1024),
    "x/".repeat(512),
    `${"y".repeat(239)}Zz`,
    "y".repeat(240),
  ],
  ...[
    "y".repeat(241),
    "y".repeat(255),
    "y".repeat(256),
    `${"y".repeat(240)}/${"y".repeat(300)}`,
    `${"é".repeat(41)}z`,
    `${"y".repeat(240)}../z`,
  ],
];

const refused = [
  "",
  "x".repeat(1025),
  "é".repeat(512) + "x",
  "a\u0000b",
  "a\u0003",
  "a\nb",
  "\u007f",
  "\u0085",
  "a\ud800",
  "\udc00b",
  "\ufffe",
  "\uffff",
];

/** Keys that do not survive everywhere. */
export const keyCases: readonly Case[] = [
  {
    id: "OS-50",
    clause: "odd keys make the round trip put, list, head, get, delete, byte for byte, and none is another",
    async run({ store, other }) {
      for (const key of odd)
        await create(store, key, `object of ${key}`, { metadata: { n: String(odd.indexOf(key)) } });
      assert.deepEqual(await keysOf(other, { prefix: "" }), inByteOrder(odd));
      for (const key of odd) {
        assert.equal(await readText(other, key), `object of ${key}`);
        const info = await other.head(key, { signal: open });
        assert.equal(info?.key, key);
        assert.equal(info.metadata["n"], String(odd.indexOf(key)));
        assert.ok((await keysOf(store, { prefix: key })).includes(key));
      }
      for (const key of odd) {
        await other.delete(key, { signal: open });
        await assertAbsent(store, key);
      }
      assert.deepEqual(await keysOf(store, { prefix: "" }), []);
    },
  },
  {
    id: "OS-51",
    clause: "odd keys page: listing after each gives the next",
    async run({ store }) {
      for (const key of odd) await create(store, key, "v");
      const sorted = inByteOrder(odd);
      for (const [i, startAfter] of sorted.entries()) {
        assert.deepEqual(await keysOf(store, { prefix: "", startAfter, limit: 2 }), sorted.slice(i + 1, i + 3));
      }
    },
  },
  {
    id: "OS-52",
    clause: "a key that could not come back from every store is INVALID_KEY in every method, before the body is opened",
    async run({ store }) {
      for (const key of refused) {
        const body = { size: 1, open: () => assert.fail("the body was opened") };
        assertFailed(await store.put(key, body, { mode: "create", signal: open }), "INVALID_KEY");
        await assertRejects(store.get(key, { signal: open }), "INVALID_KEY");
        await assertRejects(store.head(key, { signal: open }), "INVALID_KEY");
        await assertRejects(store.delete(key, { signal: open }), "INVALID_KEY");
      }
      assert.deepEqual(await keysOf(store, { prefix: "" }), []);
    },
  },
  {
    id: "OS-53",
    clause: "a key and the keys below it live side by side, whichever came first",
    async run({ store }) {
      const keys = ["p/q", "p", "p/q/r/s", "p/q/r", "p/", "p/q/"];
      for (const key of keys) await create(store, key, bytesOf(key));
      assert.deepEqual(await keysOf(store, { prefix: "" }), inByteOrder(keys));
      await store.delete("p", { signal: open });
      assert.equal(await readText(store, "p/q/r"), "p/q/r");
    },
  },
];
