// Goal: what the scripted servers play is what the real engine does. Method: one engine for the file, a fresh table per
// test; rows are counted by a client that is not bound.
import { Agent } from "node:http";
import type { ClickHouseClient } from "@clickhouse/client";
import { ClickHouseLogLevel, createClient } from "@clickhouse/client";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startEmbeddedClickHouse, type EmbeddedClickHouse } from "@holdfast/clickhouse-embedded";
import { within } from "@holdfast/deadline-http";
import { bind } from "@holdfast/deadline-http/clickhouse";
import { Lateness } from "@holdfast-private/tests-machine";
import { failure } from "../support/clickhouse.js";
import { endsByBound } from "../support/virtual-bound.js";

let engine: EmbeddedClickHouse;
let plain: ClickHouseClient;
let client: ClickHouseClient;

beforeAll(async () => {
  engine = await startEmbeddedClickHouse();
  plain = createClient({
    url: engine.url,
    log: { level: ClickHouseLogLevel.OFF },
    compression: { response: true },
    request_timeout: 600_000,
  });
  client = bind(plain);
});

afterAll(async () => {
  await plain.close();
  await engine.stop();
});

let tables = 0;
async function table(columns: string): Promise<string> {
  const name = `t${++tables}`;
  await plain.command({ query: `CREATE TABLE ${name} (${columns}) ENGINE = MergeTree ORDER BY tuple()` });
  return name;
}

const count = async (name: string): Promise<number> => {
  const result = await plain.query({ query: `SELECT count() AS n FROM ${name}`, format: "JSONEachRow" });
  return Number((await result.json<{ n: string }>())[0]?.n);
};

/** Far more than any machine needs. */
const bounded = (call: () => Promise<unknown>) => failure(() => within(600_000, call, { name: "the bound" }));

describe("a limited insert", () => {
  it("DL-09 DL-10 answers 159 as a timeout of unknown outcome, and has left rows", async () => {
    const name = await table("n UInt64");
    // A row at a time, every 10 ms for an hour: many are in the table when the limit comes, which is longer on a busy machine.
    await using machine = await Lateness.start(engine);
    const blocks = { max_block_size: "1", min_insert_block_size_rows: "1", min_insert_block_size_bytes: "1" };
    const limit = { max_execution_time: Math.ceil(await machine.pace()), timeout_overflow_mode: "throw" } as const;
    const clickhouse_settings = { ...blocks, ...limit };
    const query = `INSERT INTO ${name} SELECT number + sleepEachRow(0.01) FROM numbers(360000)`;
    const failed = await bounded(() => client.command({ query, clickhouse_settings }));
    expect(failed).toMatchObject({ code: "REQUEST_FAILED", timedOut: true, outcome: "unknown", serverCode: 159 });
    expect(failed.message).toMatch(/own time limit.*159.*the bound of 600000 ms/);
    expect(await count(name)).toBeGreaterThan(0);
  });
});

describe("refusals", () => {
  it("DL-09 an unknown table, setting or statement is refused, a bad row is not", async () => {
    const name = await table("n UInt8");
    const insert = (into: string, n: unknown) => () =>
      client.insert({ table: into, values: [{ n }], format: "JSONEachRow" });
    expect(await bounded(insert("nowhere", 1))).toMatchObject({ outcome: "refused", serverCode: 60 });
    const settings = () => ({ no_such_setting: 1 });
    const other = bind(plain, { settings });
    const query = `INSERT INTO ${name} SELECT 1`;
    expect(await bounded(() => other.command({ query }))).toMatchObject({ outcome: "refused", serverCode: 115 });
    expect(await bounded(() => client.command({ query: "CREATE TABEL x" }))).toMatchObject({ outcome: "refused" });
    expect(await bounded(insert(name, "many"))).toMatchObject({ outcome: "unknown" });
    expect(await count(name)).toBe(0);
  });
});

describe("an insert that a materialized view breaks", () => {
  it("DL-09 is unknown whatever the code: the view is analysed when rows have reached the table", async () => {
    const [name, target, gone] = [await table("n UInt64"), await table("n UInt64"), await table("n UInt64")];
    const view = `SELECT n FROM ${name} WHERE n IN (SELECT n FROM ${gone})`;
    await plain.command({ query: `CREATE MATERIALIZED VIEW view_of_${name} TO ${target} AS ${view}` });
    await plain.command({ query: `DROP TABLE ${gone}` });
    const failed = await bounded(() => client.insert({ table: name, values: [{ n: 1 }], format: "JSONEachRow" }));
    expect(failed).toMatchObject({ outcome: "unknown", serverCode: 60 });
    expect(await count(name)).toBe(1);
  });
});

describe("results", () => {
  it("DL-26 64-bit integers make the round trip as bigints", async () => {
    const name = await table("u UInt64, i Int64");
    const values = [
      { u: 2n ** 63n, i: -(2n ** 63n) },
      { u: 2n ** 64n - 1n, i: 2n ** 63n - 1n },
    ];
    await within(600_000, () => client.insert({ table: name, values, format: "JSONEachRow" }));
    const read = async () => {
      const result = await client.query({ query: `SELECT u, i FROM ${name} ORDER BY u`, format: "JSONEachRow" });
      return result.json<{ u: string; i: string }>();
    };
    const rows = await within(600_000, read);
    expect(rows.map(({ u, i }) => ({ u: BigInt(u), i: BigInt(i) }))).toEqual(values);
    const bare = { output_format_json_quote_64bit_integers: 0 } as const;
    const query = { query: `SELECT u FROM ${name}`, format: "JSONEachRow", clickhouse_settings: bare } as const;
    const failed = await bounded(async () => (await client.query(query)).json());
    expect(failed).toMatchObject({ code: "REQUEST_FAILED" });
    expect(failed.message).toContain("output_format_json_quote_64bit_integers");
  });

  it.each(["JSONEachRow", "JSONCompactEachRow", "JSON", "CSV"] as const)(
    "DL-25 an exception in the middle of a streamed %s result is a failure with the server's code",
    async (format) => {
      const query = "SELECT number, throwIf(number = 200000, 'made up') AS t FROM numbers(1000000)";
      for (const wait_end_of_query of [1, 0] as const) {
        const clickhouse_settings = { wait_end_of_query, max_block_size: "1000" };
        const failed = await bounded(async () => (await client.query({ query, format, clickhouse_settings })).text());
        expect(failed).toMatchObject({ code: "REQUEST_FAILED", serverCode: 395 });
      }
    },
  );

  it("an empty result of every format is a result", async () => {
    for (const format of ["JSONEachRow", "JSONCompactEachRow", "JSON", "JSONCompact", "CSV", "TabSeparated"] as const) {
      const query = { query: "SELECT 1 AS a WHERE 0", format } as const;
      expect(await within(600_000, async () => (await client.query(query)).text())).toBeTypeOf("string");
    }
  });

  it("a statement that outlasts its bound ends by it", async () => {
    const query = "SELECT sum(sipHash64(number)) FROM numbers(100000000000)";
    const http_agent = new Agent();
    const own = bind(createClient({ url: engine.url, log: { level: ClickHouseLogLevel.OFF }, http_agent }));
    const sent = (): boolean =>
      Object.values(http_agent.sockets).some((some) => some?.some(({ bytesWritten }) => bytesWritten > 0));
    const failed = await endsByBound(async () => (await own.query({ query })).json(), sent);
    await own.close();
    expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "unknown", timedOut: true });
  });
});
