import assert from "node:assert/strict";
import { getExactly, putVerified } from "@holdfast/object-store";
import type { Case } from "./suite.js";
import { assertRejects, bytesOf, create, infosOf, open, readText, textOf } from "./support.js";

/** The helpers that need more of a store than their own tests can show. */
export const verifiedCases: readonly Case[] = [
  {
    id: "OS-70",
    clause: "putVerified recognises its own object by the write id, and leaves another's alone",
    async run({ store, other }) {
      const mine = { writeId: "pack-1", metadata: { a: "1" }, signal: open };
      const first = await putVerified(store, "k", bytesOf("mine"), mine);
      assert.equal(first.outcome, "created");
      const again = await putVerified(other, "k", bytesOf("mine"), mine);
      assert.deepEqual(again, first);
      const alien = await putVerified(other, "k", bytesOf("alie"), { writeId: "pack-2", signal: open });
      // A store without metadata tells them apart by the bytes.
      assert.equal(alien.outcome, "conflict");
      assert.equal(alien.info.size, 4);
      assert.equal(await readText(store, "k"), "mine");
      assert.equal((await infosOf(store, { prefix: "" })).length, 1);
    },
  },
  {
    id: "OS-71",
    clause: "getExactly gives exactly the range, and fails when the object ends before it",
    async run({ store }) {
      await create(store, "k", "0123456789");
      assert.equal(textOf(await getExactly(store, "k", { offset: 4, length: 6 }, { signal: open })), "456789");
      await assertRejects(getExactly(store, "k", { offset: 4, length: 7 }, { signal: open }), "INVALID_RANGE");
      assert.equal((await getExactly(store, "k", { offset: 4, length: 0 }, { signal: open })).byteLength, 0);
    },
  },
];
