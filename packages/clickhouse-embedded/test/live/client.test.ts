// Goal: everything @clickhouse/client does works against the embedded server, unmodified. Method: one server for the file, a database per test.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createClient, type ClickHouseClient } from "@clickhouse/client";
import { startEmbeddedClickHouse, type EmbeddedClickHouse } from "../../src/index.js";

let server: EmbeddedClickHouse;
let client: ClickHouseClient;
beforeAll(async () => {
  server = await startEmbeddedClickHouse();
  client = createClient({ url: server.url });
});
afterAll(async () => {
  await client.close();
  await server.stop();
});

describe("the basics", () => {
  it("pings, creates, inserts and selects", async () => {
    expect((await client.ping()).success).toBe(true);
    await client.command({ query: "CREATE TABLE basics (a UInt64, b String) ENGINE = MergeTree ORDER BY a" });
    await client.insert({
      table: "basics",
      values: [
        { a: 1, b: "x\n\ny" },
        { a: 2, b: "DROP TABLE basics" },
      ],
      format: "JSONEachRow",
    });
    const rs = await client.query({
      query: "SELECT a, b FROM basics WHERE a >= {a:UInt8} ORDER BY a",
      format: "JSONEachRow",
      query_params: { a: 1 },
    });
    expect(await rs.json()).toEqual([
      { a: 1, b: "x\n\ny" },
      { a: 2, b: "DROP TABLE basics" },
    ]);
    await client.command({ query: "INSERT INTO basics VALUES (3, 'z'), (4, 'w')" });
    const n = await client.query({ query: "SELECT count() AS n FROM basics", format: "JSON" });
    expect((await n.json<{ n: number }>()).data).toEqual([{ n: 4 }]);
  });
});
