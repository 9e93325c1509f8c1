// Goal: an index pass makes packs visible once, whatever comes between its steps. Method: the real engine, packs in a
// memory store, and rows read by a second client that shares nothing with the code under test.
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { memoryStore, ObjectStoreError } from "@holdfast/object-store";
import { until } from "@holdfast-private/tests-machine";
import { MovableClock } from "../support/clocks.js";
import { Gate, interposed } from "../support/gate.js";
import { Lab, putPack } from "../support/lab.js";
import { probeRecords, probes } from "../support/packs.js";

let lab: Lab;
beforeAll(async () => {
  lab = await Lab.start();
});
afterEach(() => lab.settle());
afterAll(() => lab[Symbol.asyncDispose]());

async function catalog() {
  const database = await lab.database();
  const store = memoryStore();
  const count = async (table: string) => {
    const [row] = await lab.rows<{ n: string }>(`SELECT toString(count()) AS n FROM ${database}.probes_${table}`);
    return Number(row?.n);
  };
  const versions = (table: string) =>
    lab.rows<{ v: string }>(`SELECT DISTINCT toString(index_version) AS v FROM ${database}.probes_${table} ORDER BY v`);
  return { database, store, count, versions, options: { schema: probes, store, database } };
}

describe("index", () => {
  it("every value of every record is a row; a second call skips the pack", async () => {
    const { database, store, options } = await catalog();
    const { indexer } = await lab.held(options);
    const records = probeRecords(0, 25);
    const pack = await putPack(store, probes, records);
    expect(await indexer.index([pack, pack])).toEqual({
      requested: 2,
      skipped: 1,
      indexedPacks: 1,
      indexedRecords: 25,
      version: 1n,
      failures: [],
    });
    const rows = await lab.rows(`SELECT * FROM ${database}.probes_record ORDER BY captured_at_ns`);
    expect(rows).toHaveLength(25);
    expect(rows[1]).toMatchObject({
      capture_id: "capture-1",
      tenant: "t",
      model: "model 1",
      ratio: 1 / 7,
      note: records[1]?.fields.note,
      shape: [1, 2],
      run: records[1]?.fields.run,
      pack_sha256: pack.sha256,
      object_key: pack.key,
    });
    const [exact] = await lab.rows<{ step: string; steps: string; counts: string }>(
      `SELECT toString(step) AS step, toString(steps) AS steps, toString(counts) AS counts FROM ${database}.probes_record ` +
        `WHERE capture_id = 'capture-3'`,
    );
    expect(exact).toEqual({
      step: "9223372036854775811",
      steps: "[3,18446744073709551615]",
      counts: `{'a':-3,'b\\'':2}`,
    });
    expect(await indexer.index([pack])).toMatchObject({ skipped: 1, indexedPacks: 0, version: null });
  });

  it("floats and texts come out bit for bit", async () => {
    const { database, store, options } = await catalog();
    const { indexer } = await lab.held(options);
    const floats = [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, 123456789.12345679, 2 ** 53 + 2, -1e21, 1e-7];
    const texts = ["", "\0", "\n\n; DROP TABLE x", "'\"\\", "\u2028 𝄞", "\\N", "NULL", "{a:String}"];
    const [base] = probeRecords(0, 1);
    const records = floats.map((ratio, n) => ({
      ...base!,
      captureId: String(n),
      fields: { ...base!.fields, ratio, note: texts[n]! },
    }));
    await indexer.index([await putPack(store, probes, records)]);
    const rows = await lab.rows<{ bits: string; hex: string }>(
      `SELECT toString(reinterpretAsUInt64(ratio)) AS bits, hex(assumeNotNull(note)) AS hex FROM ${database}.probes_record ORDER BY toUInt32(capture_id)`,
    );
    const bits = (value: number) => new BigUint64Array(new Float64Array([value]).buffer)[0]!.toString();
    expect(rows.map((row) => row.bits)).toEqual(floats.map(bits));
    expect(rows.map((row) => row.hex.toLowerCase())).toEqual(texts.map((text) => Buffer.from(text).toString("hex")));
  });

  it("CT-01 the lease lock is free while objects are read, and held for plan and commit", async () => {
    const { options, store } = await catalog();
    const gate = new Gate();
    const slow = interposed(store, { get: () => gate.pass() });
    const front = await lab.front();
    const { indexer, keeper } = await lab.held({ ...options, store: slow, url: front.url });
    const pack = await putPack(store, probes, probeRecords(0, 3));
    const inserting = new Gate();
    front.hook({ match: /INSERT INTO .*probes_record/, before: () => inserting.pass().then(() => undefined) });
    const pass = indexer.index([pack]);
    await gate.reached;
    // Would wait for ever if the pass held the lock: its read ends only when this gate is opened.
    await keeper.exclusive(() => Promise.resolve());
    gate.open();
    await inserting.reached;
    const listed = () => front.log.some(({ statement }) => /INSERT INTO .*probes_pack_inventory/.test(statement));
    const beside = keeper.exclusive(() => Promise.resolve(listed()));
    inserting.open();
    await pass;
    // It asked while the first descriptors were on their way, and got the lock after the commit's last statement.
    expect(await beside).toBe(true);
  });

  it("CT-02 reads stalled for two TTLs stop no renewal; the packs are indexed once afterwards", async () => {
    const { options, store, count } = await catalog();
    const gate = new Gate();
    let stalled = true;
    const slow = interposed(store, {
      get: async () => {
        if (!stalled) return;
        await gate.pass();
        throw new ObjectStoreError("UNAVAILABLE", "stalled for two TTLs");
      },
    });
    const leaseClock = new MovableClock();
    const { indexer, keeper } = await lab.held({ ...options, store: slow, leaseClock });
    const { leaseId } = keeper.status();
    const pack = await putPack(store, probes, probeRecords(0, 3));
    const pass = indexer.index([pack]);
    await gate.reached;
    const { ttlMs, renewAfterMs } = keeper.config;
    for (let movedMs = 0; movedMs < 2 * ttlMs; movedMs += renewAfterMs) {
      const { renewals } = keeper.status();
      leaseClock.move(renewAfterMs);
      await until("a renewal while a read stalls", () => keeper.status().renewals > renewals);
    }
    expect(keeper.status()).toMatchObject({ state: "held", leaseId });
    gate.open();
    expect((await pass).failures).toMatchObject([{ kind: "store" }]);
    expect(keeper.status()).toMatchObject({ state: "held", leaseId });
    stalled = false;
    expect(await indexer.index([pack])).toMatchObject({ indexedPacks: 1 });
    expect(await count("snapshot_manifest")).toBe(1);
  });

  it("CT-03 a rival that indexed the packs between read and commit is noticed: 0 indexed, 2 skipped, each row once", async () => {
    const { options, store, count, versions } = await catalog();
    const ours = await lab.held(options);
    const packs = [await putPack(store, probes, probeRecords(0, 5)), await putPack(store, probes, probeRecords(5, 5))];
    const pass = await ours.steps.read(await ours.steps.plan(packs));
    await ours.keeper.release();
    const rival = lab.publisher(options);
    await rival.keeper.acquire();
    expect(await rival.indexer.index(packs)).toMatchObject({ indexedPacks: 2, version: 1n });
    await rival.keeper.release();
    await ours.keeper.acquire();
    expect(await ours.steps.commit(pass)).toMatchObject({ indexedPacks: 0, skipped: 2, version: null });
    expect(await count("record")).toBe(10);
    expect(await versions("record")).toEqual([{ v: "1" }]);
    expect(await count("snapshot_manifest")).toBe(2);
  });

  it("CT-04 two passes over one pack under one lease: the second commit asks the guard again", async () => {
    const { options, store, count } = await catalog();
    const { steps } = await lab.held(options);
    const pack = await putPack(store, probes, probeRecords(0, 5));
    const first = await steps.read(await steps.plan([pack]));
    const second = await steps.read(await steps.plan([pack]));
    expect(await steps.commit(first)).toMatchObject({ indexedPacks: 1 });
    expect(await steps.commit(second)).toMatchObject({ indexedPacks: 0, skipped: 1 });
    expect(await count("snapshot_manifest")).toBe(1);
    expect(await count("version_claim")).toBe(1);
  });

  it("CT-05 index() beside index() and a reconcile of the same pack: passes do not interleave, it is indexed once", async () => {
    const { options, store, count } = await catalog();
    const gate = new Gate();
    const slow = interposed(store, { get: () => gate.pass() });
    const front = await lab.front();
    const { indexer } = await lab.held({ ...options, store: slow, url: front.url });
    const pack = await putPack(store, probes, probeRecords(0, 5), { sequence: 0n });
    const guards = () => front.log.filter(({ statement }) => statement.includes("max(hf_inventoried)")).length;
    const reconcile = indexer.reconcile();
    await gate.reached;
    // One guard read by the reconcile for its page, one by its pass. Further passes wait, however often they are asked for.
    const before = guards();
    const others = [indexer.index([pack]), indexer.index([pack])];
    await new Promise((resolve) => setImmediate(resolve));
    await lab.rows("SELECT 1");
    expect(guards()).toBe(before);
    gate.open();
    expect(await reconcile).toMatchObject({ reconciledPacks: 1 });
    for (const other of await Promise.all(others)) expect(other).toMatchObject({ skipped: 1, indexedPacks: 0 });
    expect(await count("snapshot_manifest")).toBe(1);
    expect(await count("record")).toBe(5);
  });

  it.each(["released", "quarantined"] as const)(
    "CT-06 a lease %s between read and commit: nothing is allocated, and the pack is indexed later",
    async (how) => {
      const { options, store, count } = await catalog();
      const leaseClock = new MovableClock();
      const ours = await lab.held({ ...options, leaseClock });
      const { keeper, steps, indexer } = ours;
      const pack = await putPack(store, probes, probeRecords(0, 5));
      const pass = await steps.read(await steps.plan([pack]));
      if (how === "released") await keeper.release();
      else await keeper.whileHeld(async (held) => held.quarantine(new Error("a statement of unknown outcome")));
      const code = how === "released" ? "LEASE_LOST" : "LEASE_QUARANTINED";
      await expect(steps.commit(pass)).rejects.toMatchObject({ code });
      expect(await count("version_claim")).toBe(0);
      if (how === "quarantined") await lab.lapse(ours, { ...options, leaseClock });
      await keeper.acquire();
      expect(await indexer.index([pack])).toMatchObject({ indexedPacks: 1 });
    },
  );

  it("CT-07 a commit of 40 chunks that takes more than two TTLs keeps its lease by renewing between requests", async () => {
    const { database, options, store, count } = await catalog();
    const front = await lab.front();
    const leaseClock = new MovableClock();
    const limits = { rowsPerInsert: 5 };
    const { indexer, keeper } = await lab.held({ ...options, url: front.url, leaseClock, limits });
    const pack = await putPack(store, probes, probeRecords(0, 200));
    const { ttlMs } = keeper.config;
    const slow = () => {
      leaseClock.move(ttlMs / 15);
      return Promise.resolve(undefined);
    };
    front.hook({ match: /INSERT INTO .*probes_record/, before: slow });
    const before = keeper.status();
    expect(await indexer.index([pack])).toMatchObject({ indexedRecords: 200, version: 1n });
    const chunks = front.log.filter(({ statement }) =>
      statement.includes(`INSERT INTO \`${database}\`.\`probes_record\``),
    );
    expect(chunks).toHaveLength(40);
    expect(keeper.status()).toMatchObject({ state: "held", leaseId: before.leaseId });
    expect(keeper.status().renewals - before.renewals).toBeGreaterThanOrEqual(6);
    expect(await count("index_watermark")).toBe(1);
  });

  it("CT-18 a store that does not answer blames no pack: 10 tries later all are indexed, none set aside", async () => {
    const { options, store } = await catalog();
    const reads = { fail: true };
    const flaky = interposed(store, {
      get: () => {
        if (reads.fail) throw new ObjectStoreError("UNAVAILABLE", "503");
      },
    });
    const { indexer, keeper } = await lab.held({ ...options, store: flaky });
    for (const n of [0, 1, 2, 3, 4, 5]) await putPack(store, probes, probeRecords(n * 2, 2), { sequence: BigInt(n) });
    for (let attempt = 0; attempt < 10; attempt += 1) {
      const result = await indexer.reconcile();
      expect(result).toMatchObject({ reconciledPacks: 0, setAside: [] });
      expect(result.failures.map((failure) => failure.kind)).toEqual(Array(6).fill("store"));
    }
    expect(keeper.status().state).toBe("held");
    reads.fail = false;
    expect(await indexer.reconcile()).toMatchObject({ reconciledPacks: 6, failures: [] });
  });

  it("CT-19 a batch over its byte budget is halved until it fits; a single pack over it fails alone, at once", async () => {
    const { options, store, count } = await catalog();
    const packs = [];
    for (let n = 0; n < 8; n += 1) packs.push(await putPack(store, probes, probeRecords(n * 10, 10)));
    const { indexer } = await lab.held({ ...options, limits: { passBytes: 18_000 } });
    expect(await indexer.index(packs)).toMatchObject({ indexedPacks: 8, indexedRecords: 80, failures: [] });
    expect(indexer.counters.batchSplits).toBeGreaterThan(0);
    expect(indexer.counters.publishes).toBeGreaterThan(1);
    const large = await putPack(store, probes, probeRecords(1000, 200));
    const small = await putPack(store, probes, probeRecords(2000, 5));
    const result = await indexer.index([large, small]);
    expect(result).toMatchObject({
      indexedPacks: 1,
      failures: [{ pack: large, code: "BATCH_TOO_LARGE", kind: "pack" }],
    });
    expect(await count("record")).toBe(85);
  });

  it("a corrupt index, a wrong count and a conflicting duplicate fail alone; the other packs of the batch are indexed", async () => {
    const { options, store } = await catalog();
    const { indexer } = await lab.held(options);
    const good = [];
    for (let n = 0; n < 5; n += 1) good.push(await putPack(store, probes, probeRecords(n * 3, 3)));
    const corrupt = await putPack(store, probes, probeRecords(100, 3));
    const signal = new AbortController().signal;
    const { bytes } = await store.get(corrupt.key, { signal });
    bytes[bytes.length - 100] = 255 - bytes[bytes.length - 100]!;
    await store.put(corrupt.key, bytes, { mode: "overwrite", signal });
    const miscounted = { ...(await putPack(store, probes, probeRecords(200, 3))), records: 4 };
    const doubled = await putPack(store, probes, probeRecords(300, 3));
    const result = await indexer.index([...good, corrupt, miscounted, doubled, { ...doubled, bytes: 7 }]);
    expect(result).toMatchObject({ requested: 9, indexedPacks: 5 });
    expect(result.failures.map(({ pack, code, kind }) => [pack.packId, code, kind]).sort()).toEqual(
      [
        [corrupt.packId, "PACK_CORRUPT", "pack"],
        [miscounted.packId, "PACK_MISMATCH", "pack"],
        [doubled.packId, "PACK_CONFLICT", "pack"],
        [doubled.packId, "PACK_CONFLICT", "pack"],
      ].sort(),
    );
  });
});
