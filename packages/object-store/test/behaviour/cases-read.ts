import assert from "node:assert/strict";
import type { ByteRange } from "@holdfast/object-store";
import type { Case } from "./suite.js";
import { assertRejects, create, open, patterned, readText, textOf } from "./support.js";

/** Reading whole objects and ranges. */
export const readCases: readonly Case[] = [
  {
    id: "OS-30",
    clause: "where nothing is, get is NOT_FOUND, head is null, delete is success",
    async run({ store }) {
      await create(store, "k/below", "v");
      for (const key of ["k", "k/", "k/below/more", "other"]) {
        await assertRejects(store.get(key, { signal: open }), "NOT_FOUND");
        assert.equal(await store.head(key, { signal: open }), null);
        await store.delete(key, { signal: open });
      }
      assert.equal(await readText(store, "k/below"), "v");
    },
  },
  {
    id: "OS-31",
    clause: "a range gives exactly its bytes, cut at the object's end, and the size of the whole object",
    async run({ store }) {
      await create(store, "k", "0123456789");
      const expected: [ByteRange, string][] = [
        [{ offset: 0, length: 1 }, "0"],
        [{ offset: 0, length: 10 }, "0123456789"],
        [{ offset: 3, length: 4 }, "3456"],
        [{ offset: 9, length: 1 }, "9"],
        [{ offset: 8, length: 100 }, "89"],
        [{ offset: 0, length: 11 }, "0123456789"],
        [{ suffix: 1 }, "9"],
        [{ suffix: 10 }, "0123456789"],
        [{ suffix: 11 }, "0123456789"],
      ];
      for (const [range, text] of expected) {
        const { bytes, info } = await store.get("k", { range, signal: open });
        assert.equal(textOf(bytes), text, JSON.stringify(range));
        assert.equal(info.size, 10);
      }
    },
  },
  {
    id: "OS-32",
    clause: "a range outside the object, of an empty object, or malformed is INVALID_RANGE",
    async run({ store }) {
      await create(store, "k", "0123456789");
      await create(store, "empty", "");
      const bad: ByteRange[] = [
        { offset: 10, length: 1 },
        { offset: 1e9, length: 1 },
        { offset: -1, length: 1 },
        { offset: 0, length: 0 },
        { offset: 0, length: -1 },
        { offset: 0.5, length: 1 },
        { offset: 0, length: NaN },
        { suffix: 0 },
        { suffix: -1 },
        { suffix: Infinity },
      ];
      for (const range of bad) await assertRejects(store.get("k", { range, signal: open }), "INVALID_RANGE");
      await assertRejects(store.get("empty", { range: { offset: 0, length: 1 }, signal: open }), "INVALID_RANGE");
      await assertRejects(store.get("empty", { range: { suffix: 1 }, signal: open }), "INVALID_RANGE");
    },
  },
  {
    id: "OS-33",
    clause: "ranges across a large object are not shifted",
    async run({ store }) {
      const content = patterned(2_500_000);
      await create(store, "k", content);
      for (const [offset, length] of [
        [1_048_570, 20],
        [65_535, 2],
        [2_499_000, 1000],
        [1, 2_000_000],
      ] as const) {
        const { bytes } = await store.get("k", { range: { offset, length }, signal: open });
        assert.ok(Buffer.from(content.subarray(offset, offset + length)).equals(bytes), `${offset} + ${length}`);
      }
    },
  },
  {
    id: "OS-34",
    clause: "ifMatch reads the object that it names; after a replacement it is PRECONDITION_FAILED",
    async run({ store, other }) {
      const first = await create(store, "k", "one");
      assert.equal(textOf((await store.get("k", { ifMatch: first, signal: open })).bytes), "one");
      const second = await create(other, "k", "two", { mode: "overwrite" });
      await assertRejects(store.get("k", { ifMatch: first, signal: open }), "PRECONDITION_FAILED");
      const range = { offset: 1, length: 1 };
      assert.equal(textOf((await store.get("k", { range, ifMatch: second, signal: open })).bytes), "w");
    },
  },
  {
    id: "OS-35",
    clause: "a second handle sees a put and a delete at once",
    async run({ store, other }) {
      const etag = await create(store, "a/b", "v");
      assert.equal((await other.head("a/b", { signal: open }))?.etag, etag);
      assert.equal(await readText(other, "a/b"), "v");
      await other.delete("a/b", { signal: open });
      assert.equal(await store.head("a/b", { signal: open }), null);
    },
  },
];
