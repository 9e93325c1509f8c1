// Goal: a catalog is installed once, extended only upwards, and refused by name where it does not fit. Method: the real
// engine; catalogs made wrong by plain SQL.
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { memoryStore } from "@holdfast/object-store";
import { defineCaptureSchema } from "@holdfast/pack-format";
import { createIndexer } from "@holdfast/indexer";
import { layoutVersion } from "@holdfast/indexer/catalog";
import { SleepClock } from "../support/clocks.js";
import { Lab, putPack } from "../support/lab.js";
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
  it(
    "CT-27 four publishers start on an empty database: one runs the DDL, four are ready, and the lease is free",
    { tags: ["slow"] },
    async () => {
      const options = { ...(await fresh()), clock: await lab.schemaClock() };
      const fronts = await Promise.all([1, 2, 3, 4].map(() => lab.front()));
      const publishers = fronts.map(({ url }) => lab.publisher({ ...options, url }));
      await Promise.all(publishers.map(({ indexer }) => indexer.ensureSchema()));
      const sent = fronts.flatMap(({ log }) => log);
      const creates = sent.filter(({ statement }) => /^CREATE TABLE IF NOT EXISTS \S*probes_record/.test(statement));
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
    },
  );

  it("CT-27 a lease holder that never installs: CATALOG_BUSY after ttlMs + 5000 ms", async () => {
    const options = await fresh();
    const holder = lab.publisher(options);
    await holder.keeper.acquire();
    // Its waits are all the time that passes on this clock.
    const clock = new SleepClock();
    const { indexer } = lab.publisher({ ...options, clock, lease: { ttlMs: 3000, publishTimeoutMs: 1000 } });
    const from = clock.now();
    await expect(indexer.ensureSchema()).rejects.toMatchObject({ code: "CATALOG_BUSY" });
    const tookMs = clock.now() - from;
    expect(tookMs).toBeGreaterThanOrEqual(8000);
    // The last try may begin just before, with a pause of 500 ms and its settle of 5 s.
    expect(tookMs).toBeLessThanOrEqual(8000 + 5500);
  });

  // Red with a settle of 1 s: each claim came too late and was left to expire, until CATALOG_BUSY.
  it("a first start on a ClickHouse that takes a second for each statement installs the catalog", async () => {
    const clock = new SleepClock();
    const front = await lab.front();
    const second = () => {
      clock.move(1000);
      return Promise.resolve(undefined);
    };
    front.hook({ match: /./, before: second });
    await lab.publisher({ ...(await fresh()), url: front.url, clock }).indexer.ensureSchema();
    const claims = front.log.filter(({ statement }) => /^INSERT INTO \S*holdfast_schema_lease/.test(statement));
    // The claim and its release.
    expect(claims).toHaveLength(2);
  });

  it("a lease that the keeper holds is used and kept", async () => {
    const options = await fresh();
    const { indexer, keeper } = lab.publisher({ ...options, clock: new SleepClock() });
    await keeper.acquire();
    const { leaseId } = keeper.status();
    await indexer.ensureSchema();
    expect(keeper.status()).toMatchObject({ state: "held", leaseId });
  });

  it("a database that does not exist is created; a complete catalog is only read", async () => {
    const options = { ...(await fresh()), clock: new SleepClock() };
    await lab.write(`DROP DATABASE ${options.database}`);
    const front = await lab.front();
    const { indexer } = lab.publisher({ ...options, url: front.url });
    await indexer.ensureSchema();
    const before = front.log.length;
    await indexer.ensureSchema();
    const texts = front.log.slice(before).map(({ statement }) => statement);
    expect(texts.length).toBeGreaterThan(0);
    expect(texts.filter((text) => !text.startsWith("SELECT"))).toEqual([]);
  });

  it("CT-25 an older process reads and writes a catalog with one more field, and refuses another layout", async () => {
    const options = await fresh();
    await lab.install(options);
    const older = lab.publisher(options);
    const newer = defineCaptureSchema({
      ...probes,
      version: 2,
      fields: { ...probes.fields, unit: "LowCardinality(String)" },
      orderBy: ["model", "layer"],
    });
    await lab.install({ ...options, schema: newer });
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
