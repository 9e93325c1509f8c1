// Goal: the proxy stands before the real engine, and what it says happened is what the table shows. Method: the vendor's
// client through the proxy; rows are counted by a second client that goes around it.
import { ClickHouseLogLevel, createClient, type ClickHouseClient } from "@clickhouse/client";
import { Lateness } from "@holdfast-private/tests-machine";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { startEmbeddedClickHouse, type EmbeddedClickHouse } from "@holdfast/clickhouse-embedded";
import { startFaultProxy, type FaultProxy, type ProxiedRequest, type ProxyFault } from "@holdfast/testkit";

let engine: EmbeddedClickHouse;
let direct: ClickHouseClient;

const clientOf = (url: string): ClickHouseClient =>
  createClient({ url, log: { level: ClickHouseLogLevel.OFF }, request_timeout: 600_000, max_open_connections: 1 });

beforeAll(async () => {
  engine = await startEmbeddedClickHouse();
  direct = clientOf(engine.url);
});

afterAll(async () => {
  await direct.close();
  await engine.stop();
});

let tables = 0;
async function setUp(): Promise<{ table: string; proxy: FaultProxy; client: ClickHouseClient }> {
  const table = `t${++tables}`;
  await direct.command({ query: `CREATE TABLE ${table} (a String) ENGINE = MergeTree ORDER BY tuple()` });
  const proxy = await startFaultProxy({ target: { port: Number(new URL(engine.url).port) } });
  const client = clientOf(proxy.url);
  onTestFinished(async () => {
    await proxy[Symbol.asyncDispose]();
    await client.close();
  });
  return { table, proxy, client };
}

const count = async (table: string): Promise<number> => {
  const result = await direct.query({ query: `SELECT count() AS n FROM ${table}`, format: "JSONEachRow" });
  return Number((await result.json<{ n: string }>())[0]?.n);
};

const isInsert = (request: ProxiedRequest): boolean =>
  request.bodyStart.startsWith("INSERT") || request.url.includes("INSERT");

const insert = (client: ClickHouseClient, table: string, value = "x", signal?: AbortSignal): Promise<unknown> =>
  client.insert({
    table,
    values: [{ a: value }],
    format: "JSONEachRow",
    ...(signal === undefined ? {} : { abort_signal: signal }),
  });

const failed = (call: Promise<unknown>): Promise<string> =>
  call.then(
    () => "it went well",
    (error: unknown) => String((error as { code?: string }).code ?? error),
  );

describe("before the real engine", () => {
  it("DL-32 pass: a statement of 64 KiB is held up less than 20 ms, and lands", async () => {
    const { table, proxy, client } = await setUp();
    proxy.use({ match: () => false, fault: { kind: "stall" } });
    const value = "v".repeat(64 * 1024);
    await using lateness = await Lateness.start();
    const lateMs: number[] = [];
    for (let i = 0; i < 5; i++) {
      const from = performance.now();
      await client.command({ query: `INSERT INTO ${table} VALUES ('${value}')` });
      lateMs.push(await lateness.sinceMs(from));
    }
    const result = await client.query({ query: `SELECT sum(length(a)) AS n FROM ${table}`, format: "JSONEachRow" });
    expect(await result.json()).toEqual([{ n: 5 * value.length }]);
    const inserts = proxy.requests.filter((r) => r.bytes > value.length);
    expect(inserts.map((r) => r.delivered)).toEqual(Array.from({ length: 5 }, () => "whole"));
    const addedMs = inserts.map((r, i) => r.deliveredAt! - r.lastByteAt - lateMs[i]!);
    expect(Math.min(...addedMs)).toBeLessThan(20);
    expect(proxy.requests.at(-1)).toMatchObject({ status: 200, answerComplete: true, answerDiscarded: false });
  });

  it("DL-32 stall by predicate: the INSERT stays out, reads pass, and released it lands", async () => {
    const { table, proxy, client } = await setUp();
    const take = proxy.use({ match: isInsert, fault: { kind: "stall" } });
    const stalled = insert(client, table);
    await proxy.until(() => proxy.requests.some((r) => r.complete && r.faults[0] === "stall"));
    const other = clientOf(proxy.url);
    await other.query({ query: "SELECT 1", format: "JSONEachRow" }).then((r) => r.json());
    await other.close();
    expect(await count(table)).toBe(0);
    take();
    expect(proxy.release()).toBe(1);
    await stalled;
    expect(await count(table)).toBe(1);
  });

  it("DL-32 deliver late: the client gives up, then the INSERT lands and its answer is discarded", async () => {
    const { table, proxy, client } = await setUp();
    proxy.use({ match: isInsert, times: 1, fault: { kind: "hold" } });
    const leave = new AbortController();
    const given = failed(insert(client, table, "late", leave.signal));
    await proxy.until(() => proxy.requests[0]?.complete === true);
    leave.abort();
    expect(await given).not.toBe("it went well");
    await proxy.until(() => proxy.connections[0]?.clientLeftAt !== undefined);
    expect(await count(table)).toBe(0);
    proxy.release();
    await proxy.until(() => proxy.requests[0]?.answerComplete === true);
    expect(await count(table)).toBe(1);
    expect(proxy.requests[0]).toMatchObject({
      delivered: "whole",
      status: 200,
      answerDiscarded: true,
      answerPassed: 0,
    });
    expect(proxy.connections[0]!.bytesToClient).toBe(0);
  });

  const cuts: [string, ProxyFault, number][] = [
    ["the request is cut in its head", { kind: "cut-request", afterBytes: 40, by: "rst" }, 0],
    ["the request is cut before its last byte", { kind: "cut-request", afterBytes: (r) => r.headBytes, by: "rst" }, 0],
    ["the answer is cut", { kind: "cut-answer", afterBytes: 10, by: "rst" }, 1],
  ];
  it.each(cuts)("DL-32 %s: the client fails, and the table shows what the log says", async (_what, fault, landed) => {
    const { table, proxy, client } = await setUp();
    proxy.use({ match: isInsert, fault });
    expect(await failed(client.command({ query: `INSERT INTO ${table} VALUES ('x')` }))).toBe("ECONNRESET");
    expect(proxy.requests[0]!.delivered).toBe(landed === 1 ? "whole" : "part");
    expect(await count(table)).toBe(landed);
  });

  it("DL-32 reset on reuse: the second statement of a connection does not arrive", async () => {
    const { table, proxy, client } = await setUp();
    proxy.use({ match: (r) => r.number > 1, fault: { kind: "cut-request", afterBytes: 0, by: "rst" } });
    await insert(client, table);
    expect(await failed(insert(client, table))).toBe("ECONNRESET");
    expect(proxy.requests.map((r) => r.delivered)).toEqual(["whole", "nothing"]);
    expect(await count(table)).toBe(1);
  });
});
