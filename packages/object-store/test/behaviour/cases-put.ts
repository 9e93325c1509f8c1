import assert from "node:assert/strict";
import type { Case } from "./suite.js";
import {
  assertAbsent,
  assertFailed,
  bytesOf,
  create,
  infosOf,
  open,
  patterned,
  readText,
  streamed,
  textOf,
} from "./support.js";

/** What a put does with bytes and metadata. */
export const putCases: readonly Case[] = [
  {
    id: "OS-1",
    clause: "what was created is read back: bytes, size, etag, metadata",
    async run({ store }) {
      const metadata = { "holdfast-format": "pack-0", empty: "", odd: 'a "b" \\ <&>' };
      const etag = await create(store, "k", "hello", { metadata, contentType: "text/plain" });
      const { bytes, info } = await store.get("k", { signal: open });
      assert.equal(textOf(bytes), "hello");
      assert.deepEqual({ ...info, modifiedAtMs: 0 }, { key: "k", size: 5, etag, metadata, modifiedAtMs: 0 });
      assert.deepEqual(await store.head("k", { signal: open }), info);
      assert.ok(Number.isSafeInteger(info.modifiedAtMs));
    },
  },
  {
    id: "OS-2",
    clause: "overwrite replaces bytes and metadata as a whole, and the etag changes",
    async run({ store }) {
      const first = await create(store, "k", "one", { metadata: { a: "1" } });
      const second = await create(store, "k", "second", { mode: "overwrite", metadata: { b: "2" } });
      assert.notEqual(first, second);
      const { bytes, info } = await store.get("k", { signal: open });
      assert.equal(textOf(bytes), "second");
      assert.deepEqual(info.metadata, { b: "2" });
      assert.equal((await infosOf(store, { prefix: "" })).length, 1);
    },
  },
  {
    id: "OS-3",
    clause: "overwrite of a key that holds nothing creates it",
    async run({ store }) {
      await create(store, "k", "v", { mode: "overwrite" });
      assert.equal(await readText(store, "k"), "v");
    },
  },
  {
    id: "OS-4",
    clause: "an empty object is an object",
    async run({ store }) {
      await create(store, "k", "", { metadata: { a: "1" } });
      const { bytes, info } = await store.get("k", { signal: open });
      assert.equal(bytes.byteLength, 0);
      assert.equal(info.size, 0);
      assert.deepEqual(info.metadata, { a: "1" });
      assert.equal((await infosOf(store, { prefix: "" })).length, 1);
    },
  },
  {
    id: "OS-5",
    clause: "a body of several pieces, an empty one among them, is stored as their concatenation",
    async run({ store }) {
      const body = streamed(6, [bytesOf("ab"), bytesOf(""), bytesOf("cdef")]);
      await create(store, "k", body);
      assert.equal(await readText(store, "k"), "abcdef");
    },
  },
  {
    id: "OS-6",
    clause: "a body is opened anew for each put, from its start",
    async run({ store }) {
      const body = streamed(3, [bytesOf("abc")]);
      await create(store, "one", body);
      await create(store, "two", body);
      assert.equal(await readText(store, "two"), "abc");
      assert.ok(body.opened() >= 2);
    },
  },
  {
    id: "OS-7",
    clause: "a body that gives less than it declared fails with BODY_MISMATCH and writes nothing",
    async run({ store }) {
      const body = streamed(4, [bytesOf("abc")]);
      assertFailed(await store.put("k", body, { mode: "create", signal: open }), "BODY_MISMATCH");
      await assertAbsent(store, "k");
    },
  },
  {
    id: "OS-8",
    clause: "a body that gives more than it declared fails with BODY_MISMATCH and leaves what was there",
    async run({ store }) {
      await create(store, "k", "before");
      const body = streamed(2, [bytesOf("abc")]);
      assertFailed(await store.put("k", body, { mode: "overwrite", signal: open }), "BODY_MISMATCH");
      assert.equal(await readText(store, "k"), "before");
    },
  },
  {
    id: "OS-9",
    clause: "a body whose source fails is `failed` with the source's error and writes nothing",
    async run({ store }) {
      const broken = new Error("the disk of the spool is gone");
      const body = streamed(4, [bytesOf("ab")], () => Promise.reject(broken));
      const result = await store.put("k", body, { mode: "create", signal: open });
      assert.equal(result.outcome, "failed");
      assert.equal(result.error, broken);
      await assertAbsent(store, "k");
    },
  },
  {
    id: "OS-10",
    clause: "a store keeps its own copy: changing what was put or got changes nothing stored",
    async run({ store }) {
      const given = bytesOf("abc");
      await create(store, "k", given);
      given.fill(0);
      const { bytes } = await store.get("k", { signal: open });
      assert.equal(textOf(bytes), "abc");
      bytes.fill(0);
      assert.equal(await readText(store, "k"), "abc");
    },
  },
  {
    id: "OS-11",
    clause: "of a view only its own bytes are stored",
    async run({ store }) {
      await create(store, "k", bytesOf("0123456789").subarray(3, 6));
      assert.equal(await readText(store, "k"), "345");
    },
  },
  {
    id: "OS-12",
    clause: "megabytes come back byte for byte",
    async run({ store }) {
      const content = patterned((3 << 20) + 17);
      await create(store, "k", content);
      const { bytes } = await store.get("k", { signal: open });
      assert.ok(Buffer.from(content).equals(bytes));
    },
  },
  {
    id: "OS-13",
    clause: "metadata that some store could not keep is `failed` with INVALID_METADATA, and nothing is written",
    async run({ store }) {
      const bad = [
        { Upper: "x" },
        { "a b": "x" },
        { "": "x" },
        { a: " x" },
        { a: "x\n" },
        { a: "é" },
        { a: "x".repeat(2048) },
      ];
      for (const metadata of bad) {
        const result = await store.put("k", bytesOf("v"), {
          mode: "create",
          metadata: metadata,
          signal: open,
        });
        assertFailed(result, "INVALID_METADATA");
      }
      await assertAbsent(store, "k");
    },
  },
  {
    id: "OS-14",
    clause: "2048 bytes of metadata come back",
    async run({ store }) {
      const metadata = { a: '"'.repeat(1023), b: "\\".repeat(1023) };
      await create(store, "k", "v", { metadata });
      assert.deepEqual((await store.head("k", { signal: open }))?.metadata, metadata);
    },
  },
  {
    id: "OS-15",
    clause: "more bytes than declared possible are TOO_LARGE before the body is opened",
    async run({ store }) {
      const body = streamed(store.capabilities.maxObjectBytes + 1, []);
      assertFailed(await store.put("k", body, { mode: "create", signal: open }), "TOO_LARGE");
      assert.equal(body.opened(), 0);
      await assertAbsent(store, "k");
    },
  },
  {
    id: "OS-16",
    clause: "delete removes for every way of looking, is success again, and the key can be created anew",
    async run({ store }) {
      const first = await create(store, "k", "one");
      await store.delete("k", { signal: open });
      await assertAbsent(store, "k");
      await store.delete("k", { signal: open });
      assert.notEqual(await create(store, "k", "other"), first);
      assert.equal(await readText(store, "k"), "other");
    },
  },
];
