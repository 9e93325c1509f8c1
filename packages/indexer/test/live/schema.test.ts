// Goal: a catalog is installed once, extended only upwards, and refused by name where it does not fit. Method: the real
// engine; catalogs made wrong by plain SQL.
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { memoryStore } from "@holdfast/object-store";
import { defineCaptureSchema } from "@holdfast/pack-format";
import { createIndexer } from "@holdfast/indexer";
import { layoutVersion } from "@holdfast/indexer/catalog";
import { Lab, putPack, smallLease } from "../support/lab.js";
import { probeRecords, probes } from "../support/packs.js";

let lab: Lab;
beforeAll(async () => {
  lab = await Lab.start();
});
afterEach(() => lab.settle());
afterAll(() => lab[Symbol.asyncDispose]());

const fresh = async () => ({ schema: probes, store: memoryStore(), database: await lab.database() });
const tablesOf = (database: string) =>
  lab.rows<{ name: string }>(`SELECT name FROM system.tables WHERE database = '${database}' ORDER BY name`);

describe("ensureSchema", () => {
  it("CT-27 four publishers start on an empty database: one runs the DDL, four are ready, and the lease is free", async () => {
    const options = await fresh();
    const publishers = [1, 2, 3, 4].map(() => lab.publisher(options));
    await Promise.all(publishers.map(({ indexer }) => indexer.ensureSchema()));
    const creates = (await lab.recentQueries()).filter(({ query }) =>
      query.includes(`CREATE TABLE IF NOT EXISTS \`${options.database}\`.\`probes_record\``),
    );
    expect(creates).toHaveLength(1);
    expect((await tablesOf(options.database)).map((table) => table.name)).toEqual([
      "holdfast_publisher_lease",
      "holdfast_schema_lease",
      "probes_index_watermark",
      "probes_pack_inventory",
      "probes_record",
      "probes_schema_stamp",
      "probes_snapshot_manifest",
      "probes_version_claim",
    ]);
    for (const { keeper } of publishers) expect(keeper.status().state).not.toBe("held");
    await publishers[0]?.keeper.acquire({ waitMs: 0 });
  });

  it("CT-27 a lease holder that never installs: CATALOG_BUSY after ttlMs + 5000 ms", async () => {
    const options = await fresh();
    const holder = lab.publisher(options);
    await holder.keeper.acquire();
    const { indexer } = lab.publisher({ ...options, lease: { ...smallLease, ttlMs: 1500, publishTimeoutMs: 500 } });
    const from = performance.now();
    await expect(indexer.ensureSchema()).rejects.toMatchObject({ code: "CATALOG_BUSY" });
    expect(performance.now() - from).toBeGreaterThan(6500);
  });

  it("a lease that the keeper holds is used and kept", async () => {
    const options = await fresh();
    const { indexer, keeper } = lab.publisher(options);
    await keeper.acquire();
    const { leaseId } = keeper.status();
    await indexer.ensureSchema();
    expect(keeper.status()).toMatchObject({ state: "held", leaseId });
  });

  it("a database that does not exist is created; a complete catalog is only read", async () => {
    const options = { ...(await fresh()), database: "lab_made_on_demand" };
    const { indexer } = lab.publisher(options);
    await indexer.ensureSchema();
    const before = (await lab.recentQueries()).length;
    await indexer.ensureSchema();
    const texts = (await lab.recentQueries()).slice(before).map(({ query }) => query);
    expect(texts.length).toBeGreaterThan(0);
    expect(texts.filter((text) => !/^SELECT/.test(text))).toEqual([]);
  });

  it("CT-25 an older process reads and writes a catalog with one more field, and refuses another layout", async () => {
    const options = await fresh();
    const older = lab.publisher(options);
    await older.indexer.ensureSchema();
    const newer = defineCaptureSchema({
      ...probes,
      version: 2,
      fields: { ...probes.fields, unit: "LowCardinality(String)" },
      orderBy: ["model", "layer"],
    });
    await lab.publisher({ ...options, schema: newer }).indexer.ensureSchema();
    await older.indexer.ensureSchema();
    await older.keeper.acquire();
    const pack = await putPack(options.store, probes, probeRecords(0, 3));
    expect(await older.indexer.index([pack])).toMatchObject({ indexedPacks: 1, failures: [] });
    const rows = await lab.rows(`SELECT unit FROM ${options.database}.probes_record`);
    expect(rows).toEqual([{ unit: "" }, { unit: "" }, { unit: "" }]);
    await lab.write(
      `INSERT INTO ${options.database}.probes_schema_stamp SELECT ${String(layoutVersion + 1)}, 3, '{}', 0`,
    );
    for (const schema of [probes, newer]) {
      const { indexer } = lab.publisher({ ...options, schema });
      await expect(indexer.ensureSchema()).rejects.toMatchObject({
        code: "CATALOG_NEWER",
        message: expect.stringContaining("upgrade the @holdfast packages") as string,
      });
    }
  });

  it.each<[string, string, string, RegExp]>([
    ["a stamp removed from under data", "TRUNCATE TABLE {db}.probes_schema_stamp", "CATALOG_UNSTAMPED", /no stamp/],
    [
      "a table removed from beside data",
      "DROP TABLE {db}.probes_snapshot_manifest",
      "CATALOG_SCHEMA_MISMATCH",
      /probes_snapshot_manifest is missing/,
    ],
    [
      "a dropped column",
      "ALTER TABLE {db}.probes_record DROP COLUMN note",
      "CATALOG_SCHEMA_MISMATCH",
      /no column note/,
    ],
    [
      "a changed column",
      "ALTER TABLE {db}.probes_record MODIFY COLUMN step UInt32",
      "CATALOG_SCHEMA_MISMATCH",
      /step UInt32, wanted is UInt64/,
    ],
  ])("%s is refused, and says what to do", async (_, break_, code, what) => {
    const options = await fresh();
    const { indexer } = await lab.held(options);
    await indexer.index([
      await putPack(
        options.store,
        probes,
        probeRecords(0, 1).map((each) => ({ ...each, fields: { ...each.fields, step: 1n } })),
      ),
    ]);
    await lab.write(break_.replace("{db}", options.database));
    const error = await indexer.ensureSchema().catch((thrown: unknown) => thrown as Error);
    expect(error).toMatchObject({ code });
    expect(String(error)).toMatch(what);
    expect(String(error)).toMatch(/index the bucket again/);
  });

  it("a ClickHouse that is not there is CATALOG_UNREACHABLE and says what to check", async () => {
    const options = await fresh();
    const { keeper } = lab.publisher(options);
    const indexer = createIndexer({ ...options, keeper, client: lab.clientOf("http://127.0.0.1:1") });
    await expect(indexer.ensureSchema()).rejects.toMatchObject({
      code: "CATALOG_UNREACHABLE",
      outcome: "not-sent",
      message: expect.stringContaining("check that ClickHouse runs") as string,
    });
  });
});
