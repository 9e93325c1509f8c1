// Goal: what only the in-memory store promises. That it keeps the whole contract is shown by the conformance suite, in testkit's own tests.
import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { memoryStore } from "@holdfast/object-store";
import { bytesOf, create, open } from "../support.js";

describe("memoryStore", () => {
  it("is the same in every run: etags count, the clock is the given one", async () => {
    const store = memoryStore({ storeId: "sim-1", clock: { wallMs: () => 1234 } });
    assert.equal(store.storeId, "sim-1");
    assert.equal(await create(store, "a", "x"), "1");
    assert.equal(await create(store, "b", "x"), "2");
    assert.equal((await store.head("b", { signal: open }))?.modifiedAtMs, 1234);
  });

  it("keeps nothing that the caller can change", async () => {
    const store = memoryStore();
    const metadata = { a: "1" };
    await store.put("k", bytesOf("v"), { mode: "create", metadata, signal: open });
    metadata.a = "2";
    const info = await store.head("k", { signal: open });
    assert.equal(info?.metadata["a"], "1");
    assert.throws(() => Object.assign(info.metadata, { a: "3" }), TypeError);
  });
});
