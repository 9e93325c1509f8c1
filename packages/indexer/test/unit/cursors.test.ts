// Goal: reconcile misses nothing that comes late, and asks the store little. Method: the cursor and the listing over a
// memory store, with uploads in any order.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { systemClock } from "@holdfast/deadline-http";
import { memoryStore, type ObjectStore } from "@holdfast/object-store";
import { packKey, voidKey } from "@holdfast/indexer";
import { Cursors, WriterCursor } from "../../src/reconcile/cursors.js";
import { listCatalog, type ListingCounts } from "../../src/reconcile/listing.js";
import { storeAccess } from "../../src/store-access.js";
import { id } from "../support/packs.js";

const signal = new AbortController().signal;
const put = (store: ObjectStore, key: string) => store.put(key, new Uint8Array(1), { mode: "create", signal });
const keyOf = (writerId: string, n: number) =>
  packKey({ catalog: "probes", writerId, sequence: BigInt(n), packId: id(n) });

async function listed(store: ObjectStore, cursors: Cursors, full = false) {
  const counts: ListingCounts = { objects: 0, requests: 0, foreign: 0, writers: new Set() };
  const keys: string[] = [];
  const access = storeAccess({ store, clock: systemClock, timeoutMs: 1000 });
  for await (const group of listCatalog({ store: access, catalog: "probes", cursors, full, counts })) {
    keys.push(...group.map((each) => each.info.key));
  }
  return { keys, counts };
}

describe("cursor of a writer", () => {
  it("CT-21 stands before the first number that is not accounted for, in whatever order they come", () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.nat(40)), (numbers) => {
        const cursor = new WriterCursor();
        for (const n of numbers) cursor.account(BigInt(n));
        let expected = 0;
        while (numbers.includes(expected)) expected += 1;
        expect(cursor.next).toBe(BigInt(expected));
        for (let n = 0; n < 42; n += 1) expect(cursor.isAccounted(BigInt(n))).toBe(numbers.includes(n));
      }),
    );
  });
});

describe("listing", () => {
  it("CT-21 an incremental listing finds every key that is not accounted for, wherever it sorts", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(fc.record({ writer: fc.constantFrom("a", "a-b", "ab", "z"), n: fc.nat(12) }), {
          selector: (each) => `${each.writer}/${String(each.n)}`,
        }),
        fc.uniqueArray(fc.record({ writer: fc.constantFrom("a", "a-b", "ab", "z"), n: fc.nat(12) }), {
          selector: (each) => `${each.writer}/${String(each.n)}`,
        }),
        async (first, later) => {
          const store = memoryStore();
          const cursors = new Cursors();
          for (const { writer, n } of first) await put(store, keyOf(writer, n));
          for (const { writer, n } of first) cursors.of(writer).account(BigInt(n));
          const added = later.filter((each) => !first.some((one) => one.writer === each.writer && one.n === each.n));
          for (const { writer, n } of added) await put(store, keyOf(writer, n));
          const { keys } = await listed(store, cursors);
          for (const { writer, n } of added) expect(keys).toContain(keyOf(writer, n));
        },
      ),
      { numRuns: 60 },
    );
  });

  it("CT-23 (skip-scan) 1000 writers with nothing new cost about one list request each; a new one among them is found", async () => {
    const store = memoryStore();
    const cursors = new Cursors();
    const writers = Array.from({ length: 1000 }, (_, n) => `w${String(n)}`);
    for (const writer of writers) {
      for (const n of [0, 1]) await put(store, keyOf(writer, n));
      cursors.load(writer, 2n);
    }
    await put(store, keyOf("w5-new", 0));
    const busy = await listed(store, cursors);
    expect(busy.keys).toEqual([keyOf("w5-new", 0)]);
    expect(busy.counts.requests).toBeLessThanOrEqual(1004);
  });

  it("a void number closes the gap: the cursor passes it and it is not listed again", async () => {
    const store = memoryStore();
    const cursors = new Cursors();
    await put(store, keyOf("a", 0));
    await put(store, voidKey({ catalog: "probes", writerId: "a", sequence: 1n }));
    await put(store, keyOf("a", 2));
    for (const n of [0n, 1n, 2n]) cursors.of("a").account(n);
    expect((await listed(store, cursors)).keys).toEqual([]);
  });

  it("a full listing shows every key, and counts what is no pack of this catalog", async () => {
    const store = memoryStore();
    const cursors = new Cursors();
    for (const n of [0, 1, 2]) await put(store, keyOf("a", n));
    await put(store, "v1/probes/readme.txt");
    await put(store, "v1/probes2/w=a/x");
    cursors.load("a", 3n);
    const { keys, counts } = await listed(store, cursors, true);
    expect(keys).toEqual([0, 1, 2].map((n) => keyOf("a", n)));
    expect(counts).toMatchObject({ objects: 4, foreign: 1, requests: 1 });
  });
});
