// Goal: a snapshot shows the same records for ever, each captureId once, and a search shows exactly what its filter says.
// Method: the real engine; packs published, replayed and doubled; an in-memory filter and sort as the oracle.
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { memoryStore } from "@holdfast/object-store";
import { openReader, type Order, type Snapshot, type Where } from "@holdfast/reader";
import { Lab, putPack, uuid, type Publisher } from "../../../indexer/test/support/lab.js";
import { id, probeRecords, probes } from "../../../indexer/test/support/packs.js";

type Probes = typeof probes;
type Probe = ReturnType<typeof probeRecords>[number];

let lab: Lab;
beforeAll(async () => {
  lab = await Lab.start();
});
afterEach(() => lab.settle());
afterAll(() => lab[Symbol.asyncDispose]());

async function catalog() {
  const database = await lab.database();
  const store = memoryStore();
  const publisher = await lab.held({ schema: probes, store, database });
  const reader = () => openReader({ client: publisher.client, database, schema: probes, store });
  return { database, store, publisher, reader };
}

async function everything(
  snapshot: Snapshot<Probes>,
  o: { where?: Where<Probes>; orderBy?: Order<Probes>[]; limit?: number } = {},
) {
  const found = [];
  for (let cursor: string | null | undefined; cursor !== null;) {
    const page: Awaited<ReturnType<typeof snapshot.search>> = await snapshot.search({
      ...o,
      ...(cursor === undefined ? {} : { cursor }),
    });
    if (cursor !== undefined) expect(page.records.length).toBeGreaterThan(0);
    found.push(...page.records);
    cursor = page.cursor;
  }
  return found;
}

/** Publishes a pack again at a higher version, past the guard: as a publisher would that could not see the first publish. */
async function replay(publisher: Publisher, pack: Awaited<ReturnType<typeof putPack>>): Promise<void> {
  const plan = await publisher.steps.plan([]);
  const pass = await publisher.steps.read({ ...plan, requested: 1, wanted: [pack] });
  await publisher.steps.commit(pass);
}

async function payloads(snapshot: Snapshot<Probes>, records: Awaited<ReturnType<typeof everything>>) {
  const all: [string, string][] = [];
  for await (const { record, payload } of snapshot.read(records)) {
    all.push([record.captureId, Buffer.from(payload).toString("hex")]);
  }
  return all;
}

describe("a pinned snapshot", () => {
  it("CT-29 later publishes, a replay, a second pack with the same captures and merges change nothing in it", async () => {
    const { database, store, publisher, reader } = await catalog();
    const records = probeRecords(0, 20);
    // Its key sorts behind the second pack's, so that in every order the record that is not shown comes first.
    const first = await putPack(store, probes, records.slice(0, 10), { writerId: uuid(2) });
    await publisher.indexer.index([first]);
    const open = await reader();
    const pinned = await open.snapshot();
    expect(pinned.version).toBe(1n);
    const before = await everything(pinned);
    const bytes = await payloads(pinned, before);
    expect(before).toHaveLength(10);

    await publisher.indexer.index([await putPack(store, probes, records.slice(10))]);
    const changed = records.slice(0, 10).map((record) => ({
      ...record,
      fields: { ...record.fields, layer: 77, model: "a model" },
      payload: new Uint8Array(5),
    }));
    const doubled = await putPack(store, probes, changed);
    await publisher.indexer.index([doubled]);
    await replay(publisher, first);
    await lab.write(`OPTIMIZE TABLE ${database}.probes_record FINAL`);

    expect(await everything(pinned)).toEqual(before);
    expect(await payloads(pinned, before)).toEqual(bytes);
    expect(await pinned.count()).toBe(10);
    const again = await (await reader()).snapshot({ version: 1n });
    expect(await everything(again)).toEqual(before);

    // In the newest snapshot the first publish decides, too: the second pack's records are shown nowhere.
    const newest = await open.snapshot();
    expect(newest.version).toBeGreaterThan(3n);
    const now = await everything(newest, { limit: 2 });
    expect(now.map((record) => record.captureId)).toEqual(records.map((record) => record.captureId));
    expect(now.slice(0, 10)).toEqual(before);
    expect(await newest.count()).toBe(20);
    expect(await everything(newest, { where: { layer: 77 } })).toEqual([]);
    expect(await newest.count({ where: { layer: 77 } })).toBe(0);
    expect(await newest.count({ where: { layer: { lt: 77 } } })).toBe(20);
    expect((await newest.get("capture-3"))?.fields.layer).toBe(3);
    expect((await newest.get("capture-3"))?.pack.packId).toBe(first.packId);
  });

  it("shows nothing before the first publish, and refuses a version that is not visible", async () => {
    const { reader } = await catalog();
    const open = await reader();
    const empty = await open.snapshot();
    expect(empty.version).toBe(0n);
    expect(await empty.search()).toEqual({ records: [], cursor: null });
    expect(await empty.count()).toBe(0);
    expect(await empty.get("capture-1")).toBeNull();
    await expect(open.snapshot({ version: 1n })).rejects.toMatchObject({ code: "SNAPSHOT_NOT_FOUND" });
    await open.close();
    await expect(open.snapshot()).rejects.toMatchObject({ code: "READER_CLOSED" });
    await expect(empty.search()).rejects.toMatchObject({ code: "READER_CLOSED" });
  });

  it("CT-11 descriptors and manifest rows without a watermark are not shown", async () => {
    const { database, store, publisher, reader } = await catalog();
    await publisher.indexer.index([await putPack(store, probes, probeRecords(0, 4))]);
    await lab.write(
      `INSERT INTO ${database}.probes_record SELECT * REPLACE(concat('x', capture_id) AS capture_id, '${uuid(9)}' AS pack_id, ` +
        `'elsewhere' AS object_key, 2 AS index_version) FROM ${database}.probes_record`,
    );
    await lab.write(
      `INSERT INTO ${database}.probes_snapshot_manifest SELECT 2, '${uuid(8)}', store_id, 'elsewhere', '${uuid(9)}', 1 ` +
        `FROM ${database}.probes_snapshot_manifest`,
    );
    const snapshot = await (await reader()).snapshot();
    expect(await snapshot.count()).toBe(4);
    await publisher.indexer.index([await putPack(store, probes, probeRecords(10, 4))]);
    expect(await (await (await reader()).snapshot()).count()).toBe(8);
  });
});

describe("search", () => {
  const records = [...probeRecords(0, 60), ...probeRecords(60, 20, { tenant: "u", session: "v" })];
  const of = (record: Probe, column: string): unknown =>
    ({ captureId: record.captureId, capturedAtNs: record.capturedAtNs, ...record.scope, ...record.fields })[column];
  let snapshot: Snapshot<Probes>;

  // One catalog for all cases: they only read.
  beforeAll(async () => {
    const { database, store, publisher } = await catalog();
    await publisher.indexer.index([
      await putPack(store, probes, records.slice(0, 33)),
      await putPack(store, probes, records.slice(33), { codec: "gzip" }),
    ]);
    snapshot = await (await openReader({ client: lab.client, database, schema: probes, store })).snapshot();
  });

  it.each<[string, Where<Probes>, (record: Probe) => boolean]>([
    ["a text", { model: "model 1" }, (r) => r.fields.model === "model 1"],
    [
      "a text with quotes and backslashes",
      { note: probeRecords(3, 1)[0]!.fields.note! },
      (r) => r.captureId === "capture-3",
    ],
    ["what looks like SQL", { session: "' OR 1=1 --" }, () => false],
    ["null", { note: null }, (r) => r.fields.note === null],
    ["a list", { layer: [1, 4] }, (r) => [1, 4].includes(r.fields.layer)],
    ["a list with null", { note: [null, "x"] }, (r) => r.fields.note === null],
    ["an empty list", { layer: [] }, () => false],
    [
      "a range of 64-bit integers",
      { step: { gt: 2n ** 63n + 10n, lte: 2n ** 63n + 20n } },
      (r) => r.fields.step > 2n ** 63n + 10n && r.fields.step <= 2n ** 63n + 20n,
    ],
    ["a range of floats", { ratio: { gte: 3 / 7, lt: 1 } }, (r) => r.fields.ratio >= 3 / 7 && r.fields.ratio < 1],
    ["a UUID", { run: id(17) }, (r) => r.captureId === "capture-17"],
    ["the scope and a field", { tenant: "u", layer: 3 }, (r) => r.scope.tenant === "u" && r.fields.layer === 3],
    [
      "captureId and time",
      { captureId: ["capture-5", "capture-6"], capturedAtNs: { gte: 1_700_000_000_000_000_006n } },
      (r) => r.captureId === "capture-6",
    ],
  ])("by %s finds what a filter in memory finds, and count agrees", async (_, where, matches) => {
    const expected = records.filter(matches).map((record) => record.captureId);
    expect((await everything(snapshot, { where })).map((record) => record.captureId).sort()).toEqual(
      [...expected].sort(),
    );
    expect(await snapshot.count({ where })).toBe(expected.length);
  });

  const ascending = (a: unknown, b: unknown) => (a === b ? 0 : (a as number) < (b as number) ? -1 : 1);
  it.each<[string, Order<Probes>[]]>([
    ["the default", []],
    ["a descending float", [{ column: "ratio", descending: true }]],
    ["two columns against each other", ["model", { column: "layer", descending: true }]],
    ["a nullable column", ["note", { column: "step", descending: true }]],
    ["a nullable column descending", [{ column: "note", descending: true }]],
    ["a UUID column", [{ column: "run", descending: true }]],
    ["the scope", [{ column: "tenant", descending: true }, "session", "captureId"]],
  ])("in pages of 7 by %s gives the order of a sort in memory", async (_, orderBy) => {
    const keys = (orderBy.length === 0 ? ["capturedAtNs" as const] : orderBy).map((order) =>
      typeof order === "string" ? { column: order, descending: false } : { descending: false, ...order },
    );
    const bytes = (value: unknown) => (typeof value === "string" ? Buffer.from(value).toString("latin1") : value);
    const sorted = [...records].sort((a, b) => {
      for (const { column, descending } of keys) {
        const [x, y] = [of(a, column), of(b, column)];
        if (x === null || y === null) {
          if (x !== y) return x === null ? 1 : -1;
          continue;
        }
        const sign = ascending(bytes(x), bytes(y)) * (descending ? -1 : 1);
        if (sign !== 0) return sign;
      }
      return ascending(a.captureId, b.captureId);
    });
    const found = await everything(snapshot, { limit: 7, ...(orderBy.length === 0 ? {} : { orderBy }) });
    expect(found.map((record) => record.captureId)).toEqual(sorted.map((record) => record.captureId));
  });

  it("a limit outside 1 to 10000, and a cursor of another query, are refused", async () => {
    for (const limit of [0, 1.5, 10_001])
      await expect(snapshot.search({ limit })).rejects.toMatchObject({ code: "QUERY_INVALID" });
    const { cursor } = await snapshot.search({ limit: 3 });
    const other = snapshot.search({ limit: 3, cursor: cursor!, where: { layer: 1 } });
    await expect(other).rejects.toMatchObject({ code: "CURSOR_INVALID" });
  });

  it("an aborted signal is CANCELED", async () => {
    await expect(snapshot.search({ signal: AbortSignal.abort() })).rejects.toMatchObject({ code: "CANCELED" });
  });
});
