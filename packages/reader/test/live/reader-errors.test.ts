// Goal: what can be wrong with a catalog or a store is an error with a code that says what to do. Method: the real engine
// and a memory store, each made wrong in one way.
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { memoryStore, ObjectStoreError } from "@holdfast/object-store";
import { defineCaptureSchema, payloadRange } from "@holdfast/pack-format";
import { openReader } from "@holdfast/reader";
import { layoutVersion } from "@holdfast/indexer/catalog";
import { MovableClock } from "../../../indexer/test/support/clocks.js";
import { Gate, interposed } from "../../../indexer/test/support/gate.js";
import { Lab, putPack } from "../../../indexer/test/support/lab.js";
import { probeRecords, probes } from "../../../indexer/test/support/packs.js";

let lab: Lab;
beforeAll(async () => {
  lab = await Lab.start();
});
afterEach(() => lab.settle());
afterAll(() => lab[Symbol.asyncDispose]());

const signal = new AbortController().signal;

async function catalog() {
  const database = await lab.database();
  const store = memoryStore();
  const publisher = await lab.held({ schema: probes, store, database });
  const options = { client: publisher.client, database, schema: probes, store };
  return { database, store, publisher, options };
}

const says = (code: string, message: RegExp) => ({ code, message: expect.stringMatching(message) as string });

describe("openReader", () => {
  it("no catalog, no database, another schema: CATALOG_NOT_FOUND", async () => {
    const { database, options } = await catalog();
    const beacons = defineCaptureSchema({ name: "beacons", version: 1, fields: { a: "Int8" }, orderBy: ["a"] });
    const wrong = says("CATALOG_NOT_FOUND", /start a publisher with this schema once/);
    await expect(openReader({ ...options, schema: beacons })).rejects.toMatchObject(wrong);
    await expect(openReader({ ...options, database: `${database}_nowhere` })).rejects.toMatchObject(wrong);
    const empty = await lab.database();
    await expect(openReader({ ...options, database: empty })).rejects.toMatchObject(wrong);
  });

  it("nothing listens: CATALOG_UNREACHABLE; nothing answers in time: the same", async () => {
    const { options } = await catalog();
    const wrong = says("CATALOG_UNREACHABLE", /check that it runs and that the client's url is right/);
    const nobody = lab.clientOf("http://127.0.0.1:1");
    await expect(openReader({ ...options, client: nobody })).rejects.toMatchObject(wrong);
    const front = await lab.front();
    front.hook({ match: /SELECT/, before: () => Promise.resolve("stall") });
    const silent = { ...options, client: lab.clientOf(front.url), requestTimeoutMs: 200 };
    await expect(openReader(silent)).rejects.toMatchObject(wrong);
  });

  it("a user or password that ClickHouse refuses: CATALOG_ACCESS_DENIED, and the password is nowhere in the error", async () => {
    const client = lab.clientOf(lab.url, { username: "holdfast_nobody", password: "wrong-secret" });
    const error = await openReader({ client, schema: probes, store: memoryStore() }).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject(says("CATALOG_ACCESS_DENIED", /check the client's username and password/));
    expect(`${String(error)} ${JSON.stringify(error)}`).not.toContain("wrong-secret");
  });

  it("CT-25 a newer layout is refused, one more field is not, a field that the catalog lacks is", async () => {
    const { database, options } = await catalog();
    const wider = defineCaptureSchema({
      ...probes,
      version: 2,
      fields: { ...probes.fields, unit: "String" },
      orderBy: ["model", "layer"],
    });
    await expect(openReader({ ...options, schema: wider })).rejects.toMatchObject(
      says("CATALOG_SCHEMA_MISMATCH", /has no field unit yet/),
    );
    await lab.install({ ...options, schema: wider });
    await openReader({ ...options, schema: wider });
    await openReader(options);
    await lab.write(`INSERT INTO ${database}.probes_schema_stamp SELECT ${String(layoutVersion + 1)}, 1, '{}', 0`);
    await expect(openReader(options)).rejects.toMatchObject(says("CATALOG_NEWER", /upgrade the @holdfast packages/));
  });
});

describe("read", () => {
  it("a removed object: RECORD_GONE; flipped bytes, a shorter object: RECORD_CORRUPT; the record and key are named", async () => {
    const { store, publisher, options } = await catalog();
    const packs = [];
    for (const n of [0, 1, 2]) packs.push(await putPack(store, probes, probeRecords(n * 10, 2)));
    await publisher.indexer.index(packs);
    const snapshot = await (await openReader(options)).snapshot();
    const find = async (captureId: string) => [(await snapshot.get(captureId))!];
    const readAll = async (records: Awaited<ReturnType<typeof find>>) => {
      const all = [];
      for await (const { payload } of snapshot.read(records)) all.push(payload);
      return all;
    };
    expect(await readAll(await find("capture-0"))).toHaveLength(1);
    await store.delete(packs[0]!.key, { signal });
    await expect(readAll(await find("capture-0"))).rejects.toMatchObject(
      says("RECORD_GONE", new RegExp(`capture-0 .*${packs[0]!.key}`)),
    );
    const [flipped] = await find("capture-10");
    const { bytes } = await store.get(packs[1]!.key, { signal });
    bytes[payloadRange(flipped!.locator).offset] = 255 - bytes[payloadRange(flipped!.locator).offset]!;
    await store.put(packs[1]!.key, bytes, { mode: "overwrite", signal });
    await expect(readAll([flipped!])).rejects.toMatchObject(says("RECORD_CORRUPT", /capture-10/));
    expect(await readAll(await find("capture-11"))).toHaveLength(1);
    await store.put(packs[2]!.key, new Uint8Array(64), { mode: "overwrite", signal });
    await expect(readAll(await find("capture-20"))).rejects.toMatchObject(says("RECORD_CORRUPT", /capture-20/));
  });

  it("another store: STORE_MISMATCH; a store that fails: STORE_UNAVAILABLE; one that hangs: DEADLINE_EXCEEDED or CANCELED", async () => {
    const { store, publisher, options } = await catalog();
    await publisher.indexer.index([await putPack(store, probes, probeRecords(0, 2))]);
    const clock = new MovableClock();
    const requestTimeoutMs = 600_000;
    const readWith = async (given: typeof store, o: { signal?: AbortSignal } = {}) => {
      const snapshot = await (await openReader({ ...options, store: given, requestTimeoutMs, clock })).snapshot();
      const { records } = await snapshot.search();
      for await (const each of snapshot.read(records, o))
        expect(each.payload.byteLength).toBe(each.record.payloadBytes);
    };
    await readWith(store);
    await expect(readWith(memoryStore({ storeId: "elsewhere" }))).rejects.toMatchObject(
      says("STORE_MISMATCH", /elsewhere/),
    );
    const failing = interposed(store, {
      get: () => {
        throw new ObjectStoreError("UNAVAILABLE", "503");
      },
    });
    await expect(readWith(failing)).rejects.toMatchObject(says("STORE_UNAVAILABLE", /capture-0: .*503; try again/));
    const gate = new Gate();
    const hanging = interposed(store, { get: () => gate.pass() });
    const late = expect(readWith(hanging)).rejects.toMatchObject({ code: "DEADLINE_EXCEEDED" });
    await gate.reached;
    clock.move(requestTimeoutMs);
    await late;
    const another = new Gate();
    const controller = new AbortController();
    const canceled = readWith(interposed(store, { get: () => another.pass() }), { signal: controller.signal });
    await another.reached;
    setImmediate(() => controller.abort());
    await expect(canceled).rejects.toMatchObject({ code: "CANCELED" });
  });

  it.each(["none", "gzip"] as const)("payloads of codec %s hold no memory but their own", async (codec) => {
    const { store, publisher, options } = await catalog();
    await publisher.indexer.index([await putPack(store, probes, probeRecords(0, 20), { codec })]);
    const snapshot = await (await openReader(options)).snapshot();
    const { records } = await snapshot.search();
    for await (const { payload } of snapshot.read(records)) {
      expect(payload.buffer.byteLength).toBeLessThanOrEqual(2 * payload.byteLength);
    }
  });

  it("many small payloads of one pack come in few requests, and in the order asked for", async () => {
    const { store, publisher, options } = await catalog();
    await publisher.indexer.index([await putPack(store, probes, probeRecords(0, 300))]);
    let gets = 0;
    const counted = interposed(store, { get: () => void (gets += 1) });
    const snapshot = await (await openReader({ ...options, store: counted })).snapshot();
    const { records } = await snapshot.search();
    const backwards = [...records].reverse();
    const order = [];
    for await (const { record } of snapshot.read(backwards)) order.push(record.captureId);
    expect(order).toEqual(backwards.map((record) => record.captureId));
    expect(gets).toBe(1);
    gets = 0;
    for await (const { record } of snapshot.read(backwards, { byteLimit: 5000 })) order.push(record.captureId);
    expect(order.slice(300)).toEqual(order.slice(0, 300));
    expect(gets).toBeGreaterThan(2);
  });
});
