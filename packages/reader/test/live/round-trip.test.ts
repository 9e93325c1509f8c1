// Goal: what was captured is found again, exactly, at a snapshot that never changes. Method: the real engine; packs in a
// directory; plain SQL by a second client as the independent reader.
import { createHash } from "node:crypto";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fsStore } from "@holdfast/storage-fs";
import { openReader } from "@holdfast/reader";
import { Lab, putPack } from "../../../indexer/test/support/lab.js";
import { probeRecords, probes } from "../../../indexer/test/support/packs.js";

let lab: Lab;
let directory: string;
beforeAll(async () => {
  lab = await Lab.start();
  directory = await mkdtemp(join(tmpdir(), "holdfast-round-trip-"));
});
afterEach(() => lab.settle());
afterAll(async () => {
  await lab[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");

describe("round trip", () => {
  it("CT-28 340 records of mixed shapes and codecs: ids equal plain SQL's, payloads and fields equal the source's", async () => {
    const database = await lab.database();
    const store = fsStore({ directory });
    const { client, indexer } = await lab.held({ schema: probes, store, database });
    const records = [...probeRecords(0, 300), ...probeRecords(300, 40, { tenant: "u", session: "v" })];
    const packs = [
      await putPack(store, probes, records.slice(0, 150)),
      await putPack(store, probes, records.slice(150, 300), { codec: "gzip" }),
      await putPack(store, probes, records.slice(300)),
    ];
    expect(await indexer.index(packs)).toMatchObject({ indexedPacks: 3, indexedRecords: 340 });

    const reader = await openReader({ client, database, schema: probes, store });
    const snapshot = await reader.snapshot();
    expect(await snapshot.count()).toBe(340);
    const found = [];
    for (let cursor: string | null | undefined; cursor !== null;) {
      const page = await snapshot.search({ limit: 47, ...(cursor === undefined ? {} : { cursor }) });
      found.push(...page.records);
      cursor = page.cursor;
    }
    const sql = await lab.rows<{ capture_id: string }>(`SELECT DISTINCT capture_id FROM ${database}.probes_record`);
    expect(sql).toHaveLength(340);
    expect(found.map((each) => each.captureId).sort()).toEqual(sql.map((row) => row.capture_id).sort());
    const source = new Map(records.map((record) => [record.captureId, record]));
    let compared = 0;
    for await (const { record, payload } of snapshot.read(found)) {
      const original = source.get(record.captureId);
      expect(sha256(payload)).toBe(sha256(original?.payload ?? new Uint8Array()));
      const { fields, scope, capturedAtNs } = record;
      expect({ fields, scope, capturedAtNs }).toEqual({
        fields: original?.fields,
        scope: original?.scope,
        capturedAtNs: original?.capturedAtNs,
      });
      compared += 1;
    }
    expect(compared).toBe(340);
  });
});
