import assert from "node:assert/strict";
import type { PutResult } from "@holdfast/object-store";
import type { Case } from "./suite.js";
import { assertAbsent, assertFailed, bytesOf, create, open, readText } from "./support.js";

const count = (results: readonly PutResult[], outcome: PutResult["outcome"]) =>
  results.filter((result) => result.outcome === outcome).length;

/** Puts that write only under a condition. */
export const conditionCases: readonly Case[] = [
  {
    id: "OS-20",
    clause: "create on a taken key writes nothing and says what is there",
    async run({ store, other }) {
      const etag = await create(store, "k", "first", { metadata: { a: "1" } });
      const result = await other.put("k", bytesOf("later one"), { mode: "create", signal: open });
      assert.equal(result.outcome, "exists");
      assert.deepEqual(result.info, await store.head("k", { signal: open }));
      assert.equal(result.info.etag, etag);
      assert.deepEqual(result.info.metadata, { a: "1" });
      assert.equal(await readText(store, "k"), "first");
    },
  },
  {
    id: "OS-21",
    clause: "of racing creates exactly one is `created`; the others see its object, whole",
    async run({ store, other }) {
      for (let round = 0; round < 5; round++) {
        const key = `race/${round}`;
        const puts = Array.from({ length: 16 }, async (_, i) => {
          const body = bytesOf(String(i).repeat(1000));
          return (i % 2 === 0 ? store : other).put(key, body, {
            mode: "create",
            signal: open,
            metadata: { by: String(i) },
          });
        });
        const results = await Promise.all(puts);
        assert.equal(count(results, "created"), 1);
        assert.equal(count(results, "exists"), 15);
        const winner = String(results.findIndex((result) => result.outcome === "created"));
        const { bytes, info } = await store.get(key, { signal: open });
        assert.equal(Buffer.from(bytes).toString(), winner.repeat(1000));
        for (const result of results) if (result.outcome === "exists") assert.deepEqual(result.info, info);
        assert.equal(info.metadata["by"], winner);
      }
    },
  },
  {
    id: "OS-22",
    clause: "racing overwrites leave one of them, whole",
    async run({ store, other }) {
      const puts = Array.from({ length: 16 }, async (_, i) => {
        const body = bytesOf(String.fromCharCode(97 + i).repeat(5000));
        const metadata = { by: String.fromCharCode(97 + i) };
        return (i % 2 === 0 ? store : other).put("k", body, { mode: "overwrite", metadata, signal: open });
      });
      assert.equal(count(await Promise.all(puts), "created"), 16);
      const { bytes, info } = await store.get("k", { signal: open });
      assert.equal(Buffer.from(bytes).toString(), (info.metadata["by"] ?? "?").repeat(5000));
    },
  },
  {
    id: "OS-23",
    clause: "ifMatch replaces the object that it names and no other; undeclared it is refused with UNSUPPORTED",
    async run({ store }) {
      const first = await create(store, "k", "one");
      const put = (etag: string, text: string) =>
        store.put("k", bytesOf(text), { mode: { ifMatch: etag }, signal: open });
      if (!store.capabilities.ifMatch) {
        assertFailed(await put(first, "two"), "UNSUPPORTED");
        assert.equal(await readText(store, "k"), "one");
        return;
      }
      const replaced = await put(first, "two");
      assert.equal(replaced.outcome, "created");
      const stale = await put(first, "three");
      assert.equal(stale.outcome, "exists");
      assert.equal(stale.info.etag, replaced.etag);
      assert.equal(await readText(store, "k"), "two");
    },
  },
  {
    id: "OS-24",
    clause: "ifMatch where nothing is writes nothing: PRECONDITION_FAILED (undeclared: UNSUPPORTED)",
    async run({ store }) {
      const result = await store.put("k", bytesOf("v"), { mode: { ifMatch: "x" }, signal: open });
      assertFailed(result, store.capabilities.ifMatch ? "PRECONDITION_FAILED" : "UNSUPPORTED");
      await assertAbsent(store, "k");
    },
  },
  {
    id: "OS-25",
    clause: "of racing replacements of one etag exactly one is `created` (undeclared: none)",
    async run({ store, other }) {
      const etag = await create(store, "k", "0");
      const puts = Array.from({ length: 16 }, async (_, i) =>
        (i % 2 === 0 ? store : other).put("k", bytesOf(`by ${i}`), { mode: { ifMatch: etag }, signal: open }),
      );
      assert.equal(count(await Promise.all(puts), "created"), store.capabilities.ifMatch ? 1 : 0);
    },
  },
  {
    id: "OS-26",
    clause: "publishing needs create: the capability is declared",
    async run({ store }) {
      assert.equal(store.contract, 1);
      assert.equal(store.capabilities.create, true);
      assert.ok(store.storeId.length > 0);
      return Promise.resolve();
    },
  },
];
