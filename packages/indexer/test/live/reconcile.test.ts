// Goal: whatever was uploaded reaches the catalog, however late and in whatever order, for few requests to the store.
// Method: the real engine, and a memory store whose calls are counted or made to fail.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { memoryStore, ObjectStoreError } from "@holdfast/object-store";
import { defineCaptureSchema } from "@holdfast/pack-format";
import { fsStore } from "@holdfast/storage-fs";
import { packKey, voidKey } from "@holdfast/indexer";
import { MovableClock } from "../support/clocks.js";
import { interposed } from "../support/gate.js";
import { Lab, putPack, putVoid, uuid } from "../support/lab.js";
import { probeRecords, probes } from "../support/packs.js";

let lab: Lab;
let directory: string;
beforeAll(async () => {
  lab = await Lab.start();
  directory = await mkdtemp(join(tmpdir(), "holdfast-reconcile-"));
});
afterEach(() => lab.settle());
afterAll(async () => {
  await lab[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

const signal = new AbortController().signal;
let made = 0;
/** One record per pack, each different. */
const small = () => probeRecords((made += 1), 1);

async function catalog(o: Partial<Parameters<Lab["held"]>[0]> = {}) {
  const database = await lab.database();
  const store = memoryStore();
  const options = { schema: probes, store, database, ...o };
  return { database, store, options };
}

describe("reconcile", () => {
  const stores = { memory: () => memoryStore(), directory: () => fsStore({ directory }) };
  it.each(["memory", "directory"] as const)(
    "CT-20 in a %s store, a pack that was uploaded and not indexed is found, an alien object skipped, a failed head asked again",
    async (kind) => {
      const store = stores[kind]();
      const { options } = await catalog({ store });
      const heads = { fail: "" };
      const flaky = interposed(store, {
        head: (key) => {
          if (key !== heads.fail) return;
          heads.fail = "";
          throw new ObjectStoreError("UNAVAILABLE", "503");
        },
      });
      const { indexer } = await lab.held({ ...options, store: flaky });
      await putPack(store, probes, small(), { sequence: 0n });
      const headless = await putPack(store, probes, small(), { sequence: 1n });
      heads.fail = headless.key;
      await store.put("v1/probes/w=x/notes.txt", new Uint8Array(3), { mode: "create", signal });
      expect(await indexer.reconcile()).toMatchObject({ reconciledPacks: 1, foreignObjects: 1, headErrors: 1 });
      expect(await indexer.reconcile()).toMatchObject({ reconciledPacks: 1, foreignObjects: 1, headErrors: 0 });
      expect(await indexer.reconcile()).toMatchObject({ reconciledPacks: 0, headErrors: 0 });
    },
  );

  it("an object at a pack's key without a pack's metadata is foreign, and holds nothing up", async () => {
    const { store, options } = await catalog();
    const { indexer } = await lab.held(options);
    const key = packKey({ catalog: "probes", writerId: uuid(1), sequence: 5n, packId: uuid(77) });
    await store.put(key, new Uint8Array(9), { mode: "create", signal });
    await putPack(store, probes, small(), { sequence: 0n });
    expect(await indexer.reconcile()).toMatchObject({ reconciledPacks: 1, foreignObjects: 1, failures: [] });
  });

  it("CT-21 100 keys, half of them before keys already seen and out of order: all are found without a full sweep", async () => {
    const { store, options } = await catalog();
    const { indexer } = await lab.held(options);
    const put = (writer: number, n: number) =>
      putPack(store, probes, small(), { writerId: uuid(writer), sequence: BigInt(n) });
    for (let n = 0; n < 40; n += 2) await put(5, n);
    for (let n = 0; n < 5; n += 1) await put(7, n);
    for (let n = 30; n < 55; n += 1) await put(8, n);
    expect(await indexer.reconcile()).toMatchObject({ reconciledPacks: 50, full: false, writers: 3 });
    for (let n = 39; n > 0; n -= 2) await put(5, n);
    for (let n = 29; n >= 0; n -= 1) await put(8, n);
    expect(await indexer.reconcile()).toMatchObject({ reconciledPacks: 50, full: false });
    const quiet = await indexer.reconcile();
    expect(quiet).toMatchObject({ reconciledPacks: 0, listedObjects: 0, full: false });
  });

  it("CT-21 the cursor is read from the inventory: a new process jumps over what is indexed and finds a late number", async () => {
    const { store, options } = await catalog();
    const first = await lab.held(options);
    for (const n of [0, 1, 2, 4, 5]) await putPack(store, probes, small(), { writerId: uuid(3), sequence: BigInt(n) });
    expect(await first.indexer.reconcile()).toMatchObject({ reconciledPacks: 5 });
    await first.keeper.stop();
    const listed: string[] = [];
    const watched = interposed(store, { list: (from) => void listed.push(from) });
    const second = await lab.held({ ...options, store: watched });
    await putPack(store, probes, small(), { writerId: uuid(3), sequence: 3n });
    expect(await second.indexer.reconcile()).toMatchObject({ reconciledPacks: 1, listedObjects: 3 });
    expect(listed[1]).toBe(`v1/probes/w=${uuid(3)}/0000000000000003`);
    expect(await second.indexer.reconcile()).toMatchObject({ reconciledPacks: 0, listedObjects: 0 });
  });

  it("CT-22 a void number closes its gap: the cursor passes it, and it is listed once", async () => {
    const { store, options } = await catalog();
    const { indexer } = await lab.held(options);
    const writer = { catalog: "probes", writerId: uuid(4) };
    await putPack(store, probes, small(), { ...writer, sequence: 0n });
    await putPack(store, probes, small(), { ...writer, sequence: 2n });
    expect(await indexer.reconcile()).toMatchObject({ reconciledPacks: 2 });
    expect(await indexer.reconcile()).toMatchObject({ listedObjects: 1 });
    await putVoid(store, { ...writer, sequence: 1n });
    expect(await indexer.reconcile()).toMatchObject({ listedObjects: 2, reconciledPacks: 0, foreignObjects: 0 });
    expect(await indexer.reconcile()).toMatchObject({ listedObjects: 0 });
    expect(await store.head(voidKey({ ...writer, sequence: 1n }), { signal })).not.toBeNull();
  });

  it("CT-23 a full sweep comes once per fullIntervalMs, and a listing error leaves the next pass complete", async () => {
    const clock = new MovableClock();
    const { store, options } = await catalog();
    const list = { fail: false };
    const flaky = interposed(store, {
      list: () => {
        if (list.fail) throw new ObjectStoreError("UNAVAILABLE", "503");
      },
    });
    const { indexer } = await lab.held({ ...options, store: flaky, clock, reconcile: { fullIntervalMs: 3_600_000 } });
    await putPack(store, probes, small(), { sequence: 0n });
    list.fail = true;
    await expect(indexer.reconcile()).rejects.toMatchObject({ code: "UNAVAILABLE" });
    list.fail = false;
    expect(await indexer.reconcile()).toMatchObject({ full: false, reconciledPacks: 1 });
    const full = [];
    for (let minute = 0; minute < 60; minute += 10) {
      clock.move(600_000);
      full.push((await indexer.reconcile()).full);
    }
    expect(full).toEqual([false, false, false, false, false, true]);
    expect((await indexer.reconcile()).full).toBe(false);
    expect((await indexer.reconcile({ full: true })).full).toBe(true);
  });

  it("a broken pack is blamed five times and then set aside; the cursor passes it; a single pack over the budget at once", async () => {
    const { store, options } = await catalog();
    const { indexer } = await lab.held({ ...options, limits: { passBytes: 18_000 } });
    const broken = await putPack(store, probes, small(), { sequence: 0n });
    const { bytes, info } = await store.get(broken.key, { signal });
    const { metadata } = (await store.head(broken.key, { signal }))!;
    bytes[info.size - 70] = 255 - bytes[info.size - 70]!;
    await store.put(broken.key, bytes, { mode: "overwrite", metadata, signal });
    const large = await putPack(store, probes, probeRecords(5000, 200), { sequence: 1n });
    const setAside = [];
    for (let pass = 0; pass < 6; pass += 1)
      setAside.push((await indexer.reconcile()).setAside.map((each) => each.pack.packId));
    expect(setAside).toEqual([[large.packId], [], [], [], [broken.packId], []]);
    expect(await indexer.reconcile()).toMatchObject({ listedObjects: 0, failures: [] });
  });

  it("CT-24 two catalogs in one bucket and database share no row; a newer pack waits, and is indexed after the upgrade", async () => {
    const { database, store, options } = await catalog();
    const beacons = defineCaptureSchema({
      name: "beacons",
      version: 1,
      fields: { level: "Int32" },
      orderBy: ["level"],
    });
    const beacon = (n: number, fields: object) => ({ ...probeRecords(n, 1)[0]!, fields: fields as { level: number } });
    const first = await lab.held(options);
    const second = await lab.held({ ...options, schema: beacons });
    await putPack(store, probes, small(), { sequence: 0n });
    await putPack(store, beacons, [beacon(1, { level: 4 })], { sequence: 0n });
    const misplaced = await putPack(store, beacons, [beacon(2, { level: 5 })], { sequence: 1n, catalog: "probes" });
    const result = await first.indexer.reconcile();
    expect(result).toMatchObject({ reconciledPacks: 1, foreignObjects: 1 });
    expect(result.failures).toMatchObject([{ kind: "foreign", pack: { packId: misplaced.packId } }]);
    expect(await second.indexer.reconcile()).toMatchObject({ reconciledPacks: 1, foreignObjects: 0 });
    const rows = (name: string) => lab.rows(`SELECT capture_id FROM ${database}.${name}_record`);
    expect([await rows("probes"), await rows("beacons")].map((each) => each.length)).toEqual([1, 1]);

    const newer = defineCaptureSchema({
      name: "beacons",
      version: 2,
      fields: { level: "Int32", unit: "Nullable(String)", gain: "Float64" },
      orderBy: ["level"],
    });
    await putPack(store, newer, [beacon(3, { level: 6, unit: "dB", gain: 2.5 })], { sequence: 1n });
    for (let pass = 0; pass < 10; pass += 1) {
      const seen = await second.indexer.reconcile();
      expect(seen).toMatchObject({ reconciledPacks: 0, setAside: [] });
      expect(seen.failures).toMatchObject([{ kind: "waiting-for-schema" }]);
    }
    await second.keeper.stop();
    const upgraded = await lab.held({ ...options, schema: newer });
    expect(await upgraded.indexer.reconcile()).toMatchObject({ reconciledPacks: 1, failures: [] });
    // Packs of the older version still come from processes that were not upgraded yet.
    await putPack(store, beacons, [beacon(4, { level: 7 })], { sequence: 2n });
    expect(await upgraded.indexer.reconcile()).toMatchObject({ reconciledPacks: 1, failures: [] });
    expect(await lab.rows(`SELECT level, unit, gain FROM ${database}.beacons_record ORDER BY level`)).toEqual([
      { level: 4, unit: null, gain: 0 },
      { level: 6, unit: "dB", gain: 2.5 },
      { level: 7, unit: null, gain: 0 },
    ]);
  });
});
