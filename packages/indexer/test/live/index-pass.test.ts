// Goal: an index pass makes packs visible once, whatever comes between its steps. Method: the real engine, packs in a
// memory store, and rows read by a second client that shares nothing with the code under test.
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { memoryStore } from "@holdfast/object-store";
import { Lab, putPack } from "../support/lab.js";
import { probeRecords, probes } from "../support/packs.js";

let lab: Lab;
beforeAll(async () => {
  lab = await Lab.start();
});
afterEach(() => lab.settle());
afterAll(() => lab[Symbol.asyncDispose]());

describe("index", () => {
  it("every value of every record is a row; a second call skips the pack", async () => {
    const database = await lab.database();
    const store = memoryStore();
    const { indexer } = await lab.held({ schema: probes, store, database });
    const records = probeRecords(0, 25);
    const pack = await putPack(store, probes, records);
    const result = await indexer.index([pack, pack]);
    expect(result).toEqual({
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
});
