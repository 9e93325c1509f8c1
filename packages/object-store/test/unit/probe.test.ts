// Goal: `probe` passes a store that does what it declares and names the clause of one that does not; pages trust nothing. Method: the memory
// store with one method replaced.
import { describe, expect, it } from "vitest";
import {
  checkPut,
  ContractBrokenError,
  createLimiter,
  listPages,
  memoryStore,
  ObjectStoreError,
  probe,
  resolveUnknownPut,
  type Capabilities,
  type ObjectStore,
  type PutOptions,
} from "@holdfast/object-store";

const { signal } = new AbortController();
const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);
const at = { prefix: "p/", random: () => 0.5, signal };

function lying(lie: (real: ObjectStore) => Partial<ObjectStore>, declared: Partial<Capabilities> = {}): ObjectStore {
  const real = memoryStore();
  const honest: ObjectStore = {
    contract: 1,
    storeId: "lying",
    capabilities: { ...real.capabilities, ...declared },
    put: (...args) => real.put(...args),
    get: (...args) => real.get(...args),
    head: (...args) => real.head(...args),
    list: (o) => real.list(o),
    delete: (...args) => real.delete(...args),
  };
  return { ...honest, ...lie(real) };
}

async function keysOf(store: ObjectStore): Promise<string[]> {
  const keys: string[] = [];
  for await (const { key } of store.list({ prefix: "", signal })) keys.push(key);
  return keys;
}

describe("probe", () => {
  it("answers with the capabilities and leaves nothing behind", async () => {
    const store = memoryStore();
    expect(await probe(store, at)).toBe(store.capabilities);
    expect(await keysOf(store)).toEqual([]);
  });

  it("takes a store that declares less and refuses the rest", async () => {
    for (const declared of [
      { create: false },
      { ifMatch: false },
      { metadata: false },
      { create: false, ifMatch: false },
    ]) {
      const store = lying(
        (real) => ({
          async put(key, body, o) {
            try {
              checkPut(key, body, o, { ...real.capabilities, ...declared });
            } catch (error) {
              return { outcome: "failed", error: error as Error };
            }
            return real.put(key, body, o);
          },
        }),
        declared,
      );
      expect(await probe(store, at)).toMatchObject(declared);
    }
  });

  const overwriting = (real: ObjectStore, when: (mode: PutOptions["mode"]) => boolean): Partial<ObjectStore> => ({
    put: (key, body, o) => real.put(key, body, when(o.mode) ? { ...o, mode: "overwrite" } : o),
  });
  it.each<[string, (real: ObjectStore) => Partial<ObjectStore>, Partial<Capabilities>?]>([
    ["create", (real) => overwriting(real, (mode) => mode === "create")],
    ["ifMatch", (real) => overwriting(real, (mode) => typeof mode === "object")],
    ["undeclared", (real) => overwriting(real, (mode) => mode === "create"), { create: false }],
    ["undeclared", (real) => overwriting(real, (mode) => typeof mode === "object"), { ifMatch: false }],
    ["metadata", (real) => ({ put: (key, body, { mode }) => real.put(key, body, { mode, signal }) })],
    [
      "range",
      (real) => ({ get: (key, o) => real.get(key, { ...o, ...(o.range && { range: { offset: 8, length: 5 } }) }) }),
    ],
    ["range", (real) => ({ get: (key) => real.get(key, { signal }) })],
    ["get ifMatch", (real) => ({ get: (key, { range }) => real.get(key, { signal, ...(range && { range }) }) })],
    ["list", (real) => ({ list: () => real.list({ prefix: "elsewhere", signal }) })],
    ["delete", () => ({ delete: () => Promise.resolve() })],
    [
      "delete",
      (real) => ({
        async delete(key, o) {
          if ((await real.head(key, o)) === null) throw new ObjectStoreError("NOT_FOUND", "nothing is there");
          return real.delete(key, o);
        },
      }),
    ],
    ["contract", () => ({ contract: 2 as 1 })],
  ])("a store that lies about %s is CONTRACT_BROKEN, and the error names it", async (clause, lie, declared) => {
    const store = lying(lie, declared);
    const error: unknown = await probe(store, at).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(ContractBrokenError);
    expect(error).toMatchObject({ code: "CONTRACT_BROKEN", clause });
    expect((error as Error).message).toMatch(/^\[CONTRACT_BROKEN\] store lying /);
  });

  it("lets the store's own errors through, and takes its object away", async () => {
    const denied = new ObjectStoreError("ACCESS_DENIED", "no listing for you");
    const store = lying(() => ({
      async *list() {
        yield* await Promise.reject<never[]>(denied);
      },
    }));
    await expect(probe(store, at)).rejects.toBe(denied);
    expect(await store.head("p/holdfast-probe-jv9g5yxts", { signal })).toBeNull();
  });
});

describe("resolveUnknownPut", () => {
  it("tells ours, another's, nothing and no answer apart", async () => {
    const store = memoryStore();
    const ours = { writeId: "w", signal };
    expect(await resolveUnknownPut(store, "k", bytesOf("v"), ours)).toEqual({ outcome: "absent" });
    const metadata = { "holdfast-write-id": "w" };
    await store.put("k", bytesOf("v"), { mode: "create", metadata, signal });
    expect(await resolveUnknownPut(store, "k", bytesOf("v"), ours)).toEqual({ outcome: "created", etag: "1" });
    expect(await resolveUnknownPut(store, "k", bytesOf("v"), { writeId: "x", signal })).toMatchObject({
      outcome: "conflict",
    });
    const error = new ObjectStoreError("UNAVAILABLE", "no answer");
    const broken = lying(() => ({ head: () => Promise.reject(error) }));
    expect(await resolveUnknownPut(broken, "k", bytesOf("v"), ours)).toEqual({ outcome: "unknown", error });
  });
});

describe("listPages", () => {
  const pages = async (store: ObjectStore, pageSize: number, startAfter?: string) => {
    const all: string[][] = [];
    for await (const { infos, cursor } of listPages(store, {
      prefix: "k",
      pageSize,
      signal,
      ...(startAfter !== undefined && { startAfter }),
    })) {
      expect(cursor).toBe(infos.at(-1)?.key);
      all.push(infos.map(({ key }) => key));
    }
    return all;
  };
  const filled = async (store: ObjectStore, count: number) => {
    for (let i = 0; i < count; i++) await store.put(`k${i}`, bytesOf("v"), { mode: "create", signal });
    return store;
  };

  it("joins to the whole listing, whatever the size of a page", async () => {
    const store = await filled(memoryStore(), 5);
    expect(await pages(store, 2)).toEqual([["k0", "k1"], ["k2", "k3"], ["k4"]]);
    expect(await pages(store, 5)).toEqual([["k0", "k1", "k2", "k3", "k4"]]);
    expect(await pages(store, 9, "k2")).toEqual([["k3", "k4"]]);
    await expect(pages(store, 0)).rejects.toMatchObject({ code: "INVALID_RANGE" });
    expect(await pages(memoryStore(), 2)).toEqual([]);
  });

  it.each<[string, (real: ObjectStore) => Partial<ObjectStore>]>([
    [
      "repeats its first page",
      (real) => ({ list: ({ prefix, limit }) => real.list({ prefix, limit: limit ?? 1, signal }) }),
    ],
    ["gives more than the limit", (real) => ({ list: ({ prefix }) => real.list({ prefix, signal }) })],
    ["leaves the prefix", (real) => ({ list: (o) => real.list({ ...o, prefix: "" }) })],
  ])("a store whose listing %s is CORRUPT", async (_, lie) => {
    const store = await filled(lying(lie), 5);
    await store.put("a", bytesOf("v"), { mode: "create", signal });
    await expect(pages(store, 2)).rejects.toMatchObject({ code: "CORRUPT" });
  });
});

describe("what no store takes", () => {
  it.each(["append", "CREATE", "", undefined, null, 7, {}, { ifMatch: "" }, { ifMatch: 1 }, { ifNoneMatch: "*" }])(
    "a put of mode %j is failed with UNSUPPORTED and writes nothing",
    async (mode) => {
      const store = memoryStore();
      await store.put("k", bytesOf("before"), { mode: "create", signal });
      const result = await store.put("k", bytesOf("after"), { mode: mode as "create", signal });
      expect(result).toMatchObject({ outcome: "failed", error: { code: "UNSUPPORTED" } });
      expect((await store.get("k", { signal })).bytes).toEqual(bytesOf("before"));
    },
  );

  it("a content type that would end a header is INVALID_METADATA", async () => {
    for (const contentType of ["", " a", "a\r\nx-y: z", "é", "a".repeat(257)]) {
      const result = await memoryStore().put("k", bytesOf("v"), { mode: "create", contentType, signal });
      expect(result).toMatchObject({ outcome: "failed", error: { code: "INVALID_METADATA" } });
    }
  });

  it("a limiter of no places is CONFIG_INVALID", () => {
    for (const max of [0, -1, 1.5, NaN]) {
      expect(() => createLimiter(max)).toThrow(expect.objectContaining({ code: "CONFIG_INVALID" }) as Error);
    }
  });
});
