// Goal: a bound client is the vendor's in all but its bounds, and the caller's is not changed. Method: a scripted server, whose log has what was sent.
import { describe, expect, it } from "vitest";
import { within } from "@holdfast/deadline-http";
import { VirtualClock } from "@holdfast/deadline-http/testing";
import { closedPort } from "@holdfast/testkit";
import { bounded } from "../support/bounded.js";
import { boundClient, plainClient, read, write } from "../support/clickhouse.js";
import { answer, arrivals, withServer, type Answer } from "../support/scripted-server.js";
import { endsIn, running } from "../support/virtual-bound.js";

const good = answer.rows('{"a":"1"}\n');

describe("the client keeps its type and its ways", () => {
  it("DL-25 DL-26 every statement waits for its end and quotes 64-bit integers, unless the caller says otherwise", async () => {
    await withServer([answer.rows('{"a":"1"}\n')], async (server) => {
      const client = boundClient(server.url);
      await read(client);
      await write(client);
      await client.command({ query: "OPTIMIZE TABLE t" });
      await (await client.exec({ query: "SELECT 1 FORMAT TSV" })).stream.toArray();
      const own = { wait_end_of_query: 0, output_format_json_quote_64bit_integers: 0 } as const;
      await client.command({ query: "OPTIMIZE TABLE t", clickhouse_settings: own });
      const sent = server.received.map(({ url }) => [
        url.searchParams.get("wait_end_of_query"),
        url.searchParams.get("output_format_json_quote_64bit_integers"),
      ]);
      expect(sent).toEqual([...Array.from({ length: 4 }, () => ["1", "1"]), ["0", "0"]]);
    });
  });

  it("DL-26 a bare integer that a number cannot hold is refused, bigints are inserted quoted, floats pass", async () => {
    const bare = answer.rows('{"a":9007199254740993}\n');
    const fine = answer.rows(
      '{"a":"18446744073709551615","f":1e300,"g":100000000000000000000,"s":" :9007199254740993,"}\n',
    );
    const document = answer.rows('{"data":[{"a":-9223372036854775807}]}');
    await withServer([bare, fine, document, answer.ok], async (server) => {
      const client = boundClient(server.url);
      const failed = await bounded(() => read(client));
      expect(failed).toMatchObject({ code: "REQUEST_FAILED", outcome: "refused" });
      expect(failed.message).toContain("9007199254740993");
      const [row] = (await read(client)) as { a: string; f: number; g: number }[];
      expect([BigInt(row!.a), row!.f, row!.g]).toEqual([2n ** 64n - 1n, 1e300, 1e20]);
      expect((await bounded(() => client.query({ query: "SELECT 1" }).then((r) => r.json()))).message).toContain(
        "-9223372036854775807",
      );
      await client.insert({ table: "t", values: [{ a: 2n ** 63n, b: 1 }], format: "JSONEachRow" });
      expect(server.received.at(-1)?.body).toBe('{"a":"9223372036854775808","b":1}\n');
    });
  });

  it("DL-26 the caller's client is not changed, and binding a bound client does not nest", async () => {
    await withServer([good], async (server) => {
      const plain = plainClient(server.url);
      const before = JSON.stringify(Object.keys(plain).map((key) => [key, typeof Reflect.get(plain, key)]));
      const connection: unknown = Reflect.get(plain, "connection");
      const { bind } = await import("@holdfast/deadline-http/clickhouse");
      const bound = bind(bind(plain, { settings: () => ({ max_threads: 3 }) }), {
        settings: () => ({ max_block_size: "5" }),
      });
      expect(bound).toBeInstanceOf(plain.constructor);
      await read(bound);
      await read(plain);
      expect(JSON.stringify(Object.keys(plain).map((key) => [key, typeof Reflect.get(plain, key)]))).toBe(before);
      expect(Reflect.get(plain, "connection")).toBe(connection);
      const [ofBound, ofPlain] = server.received.map(({ url }) => [...url.searchParams.keys()].sort());
      expect(ofBound).toEqual([
        "max_block_size",
        "output_format_json_quote_64bit_integers",
        "query_id",
        "wait_end_of_query",
      ]);
      expect(ofPlain).toEqual(["query_id"]);
    });
  });

  it("ping does not throw, and is bounded", async () => {
    await withServer([answer.rows("Ok.\n"), answer.silent], async (server) => {
      const client = boundClient(server.url);
      expect(await client.ping()).toEqual({ success: true });
      expect(server.received[0]?.url.pathname).toBe("/ping");
      const clock = new VirtualClock();
      const silent = running(within(200, () => client.ping(), { clock }));
      await arrivals(server, 2);
      expect(await endsIn(clock, 200, silent)).toMatchObject({ success: false, error: { code: "DEADLINE_EXCEEDED" } });
    });
    const refused = await boundClient(`http://127.0.0.1:${await closedPort()}`).ping();
    expect(refused).toMatchObject({ success: false, error: { code: "REQUEST_FAILED", outcome: "not-sent" } });
  });

  it("session, role, database, parameters and summary go through", async () => {
    const summary: Answer = (response) =>
      response.writeHead(200, { "X-ClickHouse-Summary": '{"written_rows":"7"}' }).end();
    await withServer([summary], async (server) => {
      const client = boundClient(server.url, {}, { database: "db", session_id: "s" });
      const result = await client.command({
        query: "INSERT INTO t SELECT {n:UInt8}",
        query_params: { n: 5 },
        query_id: "own",
      });
      expect(result).toMatchObject({ query_id: "own", summary: { written_rows: "7" } });
      const sent = Object.fromEntries(server.received[0]!.url.searchParams);
      expect(sent).toMatchObject({ database: "db", session_id: "s", param_n: "5", query_id: "own" });
      expect(server.received[0]!.body).toBe("INSERT INTO t SELECT {n:UInt8}");
    });
  });

  it("an option that cannot work is refused by name", async () => {
    const plain = plainClient("http://127.0.0.1:9");
    const { bind } = await import("@holdfast/deadline-http/clickhouse");
    expect(() => bind(plain, { maxAttempts: 0 })).toThrow(/CONFIG_INVALID.*maxAttempts is 0/);
    expect(() => bind(plain, { requestTimeoutMs: NaN })).toThrow(/CONFIG_INVALID.*requestTimeoutMs/);
    expect(() => bind({} as never)).toThrow(/not a client of @clickhouse\/client/);
  });
});
