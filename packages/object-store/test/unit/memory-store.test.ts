// Goal: the in-memory store keeps the whole contract. Method: the shared behaviour suite, plus what only it promises.
import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { memoryStore } from "@holdfast/object-store";
import { objectStoreBehaviour } from "../behaviour/suite.js";
import { bytesOf, create, open } from "../behaviour/support.js";

describe("memoryStore", () => {
  objectStoreBehaviour({ describe, it }, () => {
    const store = memoryStore();
    return Promise.resolve({ store, other: store, dispose: () => Promise.resolve() });
  });

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
