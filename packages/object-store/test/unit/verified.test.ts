// Goal: after a lost answer our own object is recognised, and another's is never taken for ours. Method: a store whose put and head answer
// by script, over a real memory store behind it.
import { describe, expect, it } from "vitest";
import {
  getExactly,
  memoryStore,
  ObjectStoreError,
  putVerified,
  type ObjectStore,
  type PutResult,
} from "@holdfast/object-store";
import { bytesOf, create, open, streamed } from "../support.js";

const lost = new ObjectStoreError("UNAVAILABLE", "the connection was reset before an answer came");
const unknown: PutResult = { outcome: "unknown", error: lost };
const mine = { writeId: "pack-7", signal: open };

/** The memory store with some of its methods scripted. Methods see `real` for the rest. */
function scripted(script: (real: ObjectStore) => Partial<ObjectStore>): { store: ObjectStore; real: ObjectStore } {
  const real = memoryStore();
  const base: ObjectStore = {
    contract: 1,
    storeId: "scripted",
    capabilities: real.capabilities,
    put: (...args) => real.put(...args),
    get: (...args) => real.get(...args),
    head: (...args) => real.head(...args),
    list: (o) => real.list(o),
    delete: (...args) => real.delete(...args),
  };
  return { store: { ...base, ...script(real) }, real };
}

describe("putVerified", () => {
  // Red when `unknown` is returned without a look.
  it("a put that landed and whose answer was lost is `created`, once", async () => {
    const { store, real } = scripted((to) => ({ put: async (...args) => (await to.put(...args), unknown) }));
    const result = await putVerified(store, "k", bytesOf("body"), mine);
    expect(result).toEqual({ outcome: "created", etag: (await real.head("k", { signal: open }))?.etag });
  });

  it("a put that landed, was repeated by the store's client and then refused is `created`", async () => {
    const { store } = scripted((to) => ({ put: async (...args) => (await to.put(...args), to.put(...args)) }));
    expect((await putVerified(store, "k", bytesOf("body"), mine)).outcome).toBe("created");
  });

  // Red when the size alone decides.
  it("another's object of the same length is a `conflict` and stays as it is", async () => {
    for (const lose of [false, true]) {
      const { store, real } = scripted((to) => ({ put: async (...args) => (lose ? unknown : to.put(...args)) }));
      await create(real, "k", "ydob", { metadata: { "holdfast-write-id": "pack-8" } });
      const result = await putVerified(store, "k", bytesOf("body"), mine);
      expect(result).toMatchObject({ outcome: "conflict", info: { size: 4 } });
      expect((await real.get("k", { signal: open })).bytes).toEqual(bytesOf("ydob"));
    }
  });

  // Red when the write id alone decides.
  it("an object under our write id with another size is a `conflict`", async () => {
    const { store, real } = scripted(() => ({}));
    await create(real, "k", "body and more", { metadata: { "holdfast-write-id": "pack-7" } });
    expect((await putVerified(store, "k", bytesOf("body"), mine)).outcome).toBe("conflict");
  });

  it("nothing seen after a lost answer stays `unknown`: the object may still land", async () => {
    const { store } = scripted(() => ({ put: () => Promise.resolve(unknown) }));
    expect(await putVerified(store, "k", bytesOf("body"), mine)).toBe(unknown);
  });

  it("a look that fails stays `unknown`, with the put's own error", async () => {
    const head = () => Promise.reject(new ObjectStoreError("UNAVAILABLE", "no answer to the look either"));
    const { store } = scripted(() => ({ put: () => Promise.resolve(unknown), head }));
    expect(await putVerified(store, "k", bytesOf("body"), mine)).toBe(unknown);
  });

  it("`failed` comes back as it was, without a look", async () => {
    const failed: PutResult = { outcome: "failed", error: new ObjectStoreError("ACCESS_DENIED", "no") };
    const head = () => Promise.reject(new Error("it looked"));
    const { store } = scripted(() => ({ put: () => Promise.resolve(failed), head }));
    expect(await putVerified(store, "k", bytesOf("body"), mine)).toBe(failed);
  });

  it("on a store without metadata the bytes decide, and a failed comparison is `unknown`", async () => {
    const capabilities = { ...memoryStore().capabilities, metadata: false };
    const { store, real } = scripted(() => ({ capabilities }));
    await create(real, "same", "body");
    await create(real, "other", "bodY");
    const body = streamed(4, [bytesOf("bo"), bytesOf("dy")]);
    expect((await putVerified(store, "same", body, mine)).outcome).toBe("created");
    expect((await putVerified(store, "other", body, mine)).outcome).toBe("conflict");
    const { store: broken } = scripted(() => ({
      capabilities,
      get: () => Promise.reject(lost),
      put: (...args) => real.put(...args),
    }));
    expect(await putVerified(broken, "same", body, mine)).toEqual(unknown);
  });

  it("keeps the caller's metadata beside the write id", async () => {
    const { store, real } = scripted(() => ({}));
    await putVerified(store, "k", bytesOf("body"), { ...mine, metadata: { a: "1" }, contentType: "text/plain" });
    const info = await real.head("k", { signal: open });
    expect(info?.metadata).toEqual({ a: "1", "holdfast-write-id": "pack-7" });
  });
});

describe("getExactly", () => {
  it.each([
    ["fewer", 3],
    ["more", 5],
  ])("a store that answers with %s bytes than asked for is CORRUPT", async (_, count) => {
    const { store, real } = scripted((to) => ({
      get: async (...args) => ({ ...(await to.get(...args)), bytes: new Uint8Array(count) }),
    }));
    await create(real, "k", "0123456789");
    const work = getExactly(store, "k", { offset: 2, length: 4 }, { signal: open });
    await expect(work).rejects.toMatchObject({
      code: "CORRUPT",
      message: expect.stringContaining(`${count} came`) as string,
    });
  });

  it("nothing is answered without asking", async () => {
    const { store } = scripted(() => ({ get: () => Promise.reject(new Error("it asked")) }));
    expect(await getExactly(store, "k", { offset: 2, length: 0 }, { signal: open })).toHaveLength(0);
  });
});
