// Goal: a listing has every key, byte for byte, once, or fails and ends. Method: the fake GCS with every odd key, and a server that loses its place.
import { errorCode, type ObjectStore } from "@holdfast/object-store";
import { describe, expect, it } from "vitest";
import { scriptedGcs, storeOn } from "../support/scripted-gcs.js";
import { vendors } from "../support/vendors.js";

const never = new AbortController().signal;

async function keysOf(
  store: ObjectStore,
  o: { prefix?: string; startAfter?: string; limit?: number } = {},
): Promise<string[]> {
  const keys: string[] = [];
  for await (const { key } of store.list({ prefix: "", ...o, signal: never })) keys.push(key);
  return keys;
}

const failing = (store: ObjectStore): Promise<unknown> => keysOf(store).catch((error: unknown) => errorCode(error));
const sorted = (keys: readonly string[]): string[] =>
  [...keys].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));

const odd = sorted([
  " lead", "%41", "&amp;", "//a//b", "./a", "<&>\"'", "100%", "100%25", "a b", "a+b", "a/../b", "a:b", "dir/", "e\u0301", "trail ",
  "x#y?z=1", "é", "한국어", "😀", "{{projectId}}", "...", "\uffee",
]); // prettier-ignore

const page = (keys: readonly string[], token?: string): { headers: Record<string, string>; body: string } => {
  const items = keys.map((name) => ({ name, size: "1", generation: "1", timeCreated: "2026-11-30T12:00:00.123Z" }));
  const body = { kind: "storage#objects", items, ...(token === undefined ? {} : { nextPageToken: token }) };
  return { headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
};

describe.each(vendors)("$name", (vendor) => {
  const test = it.skipIf(vendor.Storage === null);

  test.each(["", "team a+b/"])(
    "B25 keys survive put, list, head, get and delete, byte for byte (prefix %j)",
    async (keyPrefix) => {
      const server = await scriptedGcs();
      const store = storeOn(vendor, server, { keyPrefix });
      for (const key of odd) {
        const body = Buffer.from(`object of ${key}`);
        expect((await store.put(key, body, { mode: "create", signal: never })).outcome, key).toBe("created");
      }
      expect(await keysOf(store)).toEqual(odd);
      for (const key of odd) {
        expect((await store.head(key, { signal: never }))?.key).toBe(key);
        const { bytes } = await store.get(key, { range: { offset: 10, length: 100 }, signal: never });
        expect(Buffer.from(bytes).toString()).toBe(key);
        expect(await keysOf(store, { prefix: key, limit: 1 })).toEqual([key]);
        expect(await keysOf(store, { startAfter: key })).toEqual(odd.slice(odd.indexOf(key) + 1));
      }
      for (const key of odd) await store.delete(key, { signal: never });
      expect(await keysOf(store)).toEqual([]);
    },
  );

  test("`.` and `..` are refused before anything is sent, and are keys below a prefix", async () => {
    const server = await scriptedGcs();
    const store = storeOn(vendor, server);
    for (const key of [".", ".."]) {
      expect(await store.put(key, new Uint8Array(1), { mode: "create", signal: never })).toMatchObject({
        outcome: "failed",
        error: { code: "INVALID_KEY" },
      });
      await expect(store.get(key, { signal: never })).rejects.toMatchObject({ code: "INVALID_KEY" });
    }
    expect(server.ops()).toBe("");
    const below = storeOn(vendor, server, { keyPrefix: "t/" });
    for (const key of [".", ".."]) await below.put(key, new Uint8Array(1), { mode: "create", signal: never });
    expect(await keysOf(below)).toEqual([".", ".."]);
  });

  test("asks for what is wanted: the start and one more, no more than the limit, no metadata", async () => {
    const server = await scriptedGcs();
    const store = storeOn(vendor, server, { keyPrefix: "p/" });
    for (const key of ["a", "b", "c", "d"]) {
      await store.put(key, new Uint8Array(1), { mode: "create", signal: never, metadata: { a: "1" } });
    }
    server.seen.length = 0;
    const infos = [];
    for await (const info of store.list({ prefix: "", startAfter: "a", limit: 2, signal: never })) infos.push(info);
    expect(infos).toMatchObject([{ key: "b", etag: "2", size: 1, metadata: {} }, { key: "c" }]);
    expect(server.ops()).toBe("list");
    expect(Object.fromEntries(server.seen[0]!.request.url.searchParams)).toMatchObject({
      prefix: "p/",
      startOffset: "p/a",
      maxResults: "3",
      fields: expect.stringContaining("nextPageToken") as string,
    });
    // The start need not exist, nor have the prefix.
    expect(await keysOf(store, { startAfter: "aa" })).toEqual(["b", "c", "d"]);
    expect(await keysOf(store, { prefix: "b", startAfter: "a" })).toEqual(["b"]);
    expect(await keysOf(store, { prefix: "b", startAfter: "z" })).toEqual([]);
  });

  test("2,500 keys come in three pages, in order", async () => {
    const server = await scriptedGcs();
    const store = storeOn(vendor, server);
    const keys = Array.from({ length: 2_500 }, (_, n) => String(n).padStart(4, "0"));
    const stored = { bytes: Buffer.alloc(1), md5: Buffer.alloc(16), generation: 1, headers: {} };
    for (const key of keys) server.fake.objects.set(`bucket/${key}`, stored);
    expect(await keysOf(store)).toEqual(keys);
    expect(server.ops()).toBe("list list list");
  });

  describe("a server that loses its place", () => {
    const pages = async (answers: (nth: number) => ReturnType<typeof page>) => {
      const server = await scriptedGcs(({ nth }) => answers(nth));
      return { server, store: storeOn(vendor, server) };
    };
    const cycle =
      (...all: ReturnType<typeof page>[]) =>
      (nth: number) =>
        all[(nth - 1) % all.length] ?? page([]);

    test.each<[string, (nth: number) => ReturnType<typeof page>, number]>([
      ["FA-21 empty pages with tokens A, B, A, B", (nth) => page([], nth % 2 === 0 ? "A" : "B"), 3],
      ["FA-21 empty pages with new tokens forever", (nth) => (nth > 300 ? page([]) : page([], String(nth))), 101],
      ["the same page and token forever", cycle(page(["a", "b"], "t")), 2],
      ["pages in a circle", cycle(page(["a"], "1"), page(["b"], "2"), page(["a"], "3")), 3],
      ["a page out of order", cycle(page(["b", "a"])), 1],
      ["a key twice", cycle(page(["a", "a"])), 1],
    ])("%s: CORRUPT, and no endless listing", async (_what, answers, requests) => {
      const { server, store } = await pages(answers);
      expect(await failing(store)).toBe("CORRUPT");
      expect(server.seen).toHaveLength(requests);
    });

    test("a key outside the prefix is CORRUPT", async () => {
      const { store } = await pages(cycle(page(["zzz"])));
      const listed = keysOf(store, { prefix: "k/" });
      await expect(listed).rejects.toMatchObject({ code: "CORRUPT" });
    });

    test("some empty pages are no end, and a token may come again after a key", async () => {
      const script = [page([], "A"), page([], "B"), page(["a"], "A"), page([], "C"), page(["b"], "B"), page(["c"])];
      const { store } = await pages((nth) => script[nth - 1] ?? page([]));
      expect(await keysOf(store)).toEqual(["a", "b", "c"]);
    });

    test("a page of more than was asked for does not break the limit", async () => {
      const { store } = await pages(cycle(page(["a", "b", "c"])));
      expect(await keysOf(store, { limit: 2 })).toEqual(["a", "b"]);
    });
  });

  test.each([
    ["nothing", ""],
    ["an empty object", "{}"],
    ["a page of HTML", "<html>sign in</html>"],
    ["an entry without a size", '{"kind":"storage#objects","items":[{"name":"a","generation":"1"}]}'],
    ["an entry without a name", '{"kind":"storage#objects","items":[{"size":"1","generation":"1"}]}'],
    ["items that are none", '{"kind":"storage#objects","items":{}}'],
    ["a token that is no text", '{"kind":"storage#objects","nextPageToken":7}'],
  ])("a 200 with %s is no listing: CORRUPT", async (_what, body) => {
    const server = await scriptedGcs(() => ({ headers: { "content-type": "application/json" }, body }));
    expect(await failing(storeOn(vendor, server, { attempts: 1 }))).toMatch(/^(?:CORRUPT|UNAVAILABLE)$/);
  });
});
