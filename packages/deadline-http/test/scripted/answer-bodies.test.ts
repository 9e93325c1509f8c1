// Goal: a body that is broken, or that holds an exception, is never taken for a result, and a good one comes whole. Method: a scripted server.
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { bounded } from "../support/bounded.js";
import { boundClient, failure, read, write } from "../support/clickhouse.js";
import { answer, withServer, type Answer } from "../support/scripted-server.js";
import { turns } from "../support/virtual-bound.js";

describe("a body that is not what its headers said", () => {
  const exception =
    "Code: 395. DB::Exception: Value passed to 'throwIf' is non-zero. (FUNCTION_THROW_IF) (version 26.7.2.1)\n";
  const tag = "abcdefghijklmnop";
  const tagged = `\r\n__exception__\r\n${tag}\r\n${exception}${exception.length} ${tag}\r\n__exception__\r\n`;
  const taggedAnswer: Answer = (response) => {
    response.writeHead(200, { "X-ClickHouse-Exception-Tag": tag });
    response.write(`{"a":"1"}\n${tagged}`, () => setTimeout(() => response.socket?.destroy(), 20));
  };

  it.each<[string, Answer, "JSONEachRow" | "JSON", number | undefined]>([
    ["no rows, then the exception's text", answer.rows(exception), "JSONEachRow", 395],
    ["no rows, then the exception's text, as a document", answer.rows(exception), "JSON", 395],
    ["a row, then the text", answer.rows(`{"a":"1"}\n${exception}`), "JSONEachRow", 395],
    [
      "a row, then an exception row",
      answer.rows(`{"a":"1"}\n{"exception":${JSON.stringify(exception)}}\n`),
      "JSONEachRow",
      395,
    ],
    ["only an exception row", answer.rows(`{"exception": ${JSON.stringify(exception)}}\n`), "JSONEachRow", 395],
    [
      "an exception key in the document",
      answer.rows(`{"data":[{"a":"1"}],"rows":1,"exception":${JSON.stringify(exception)}}`),
      "JSON",
      395,
    ],
    ["a row, then a tagged block, and no end", taggedAnswer, "JSONEachRow", 395],
    ["rows cut in a line, no length", answer.unframed('{"a":"1"}\n{"a":'), "JSONEachRow", undefined],
    ["rows cut at a line, no length", answer.unframed('{"a":"1"}\n{"a":"2"}\n'), "JSONEachRow", undefined],
    ["a document that is cut, no length", answer.unframed('{"data":[{"a":"1"},'), "JSON", undefined],
    ["nothing where a document should be", answer.ok, "JSON", undefined],
  ])("DL-25 %s: fails, with the server's code where there is one", async (_name, script, format, serverCode) => {
    await withServer([script], async (server) => {
      const client = boundClient(server.url, { maxAttempts: 1 });
      for (const wait_end_of_query of [1, 0] as const) {
        const clickhouse_settings = { wait_end_of_query };
        const call = () =>
          client.query({ query: "SELECT a FROM t", format, clickhouse_settings }).then((r) => r.json());
        const failed = await bounded(call);
        expect([failed.code, failed.serverCode]).toEqual(["REQUEST_FAILED", serverCode]);
      }
    });
  });

  it("DL-25 a stream that is cut after some rows at the border of one fails, and so does text", async () => {
    const text = "1\n2\n3\n";
    await withServer([answer.cutAfter(text), answer.unframed(text), answer.rows(`1\n${exception}`)], async (server) => {
      const client = boundClient(server.url);
      const clickhouse_settings = { wait_end_of_query: 0 } as const;
      for (let n = 0; n < 3; n++) {
        const result = await client.query({ query: "SELECT a FROM t", format: "TabSeparated", clickhouse_settings });
        const failed = await bounded(async () => {
          for await (const rows of result.stream()) expect(rows.length).toBeGreaterThan(0);
        });
        expect(failed.code).toBe("REQUEST_FAILED");
      }
      expect(server.received).toHaveLength(3);
    });
  });

  it("DL-25 an exception in the body of a good answer to a write is a failure of unknown outcome", async () => {
    await withServer([answer.rows(exception)], async (server) => {
      const client = boundClient(server.url);
      for (const call of [() => write(client), () => client.command({ query: "INSERT INTO t SELECT 1" })]) {
        expect(await bounded(call)).toMatchObject({ code: "REQUEST_FAILED", outcome: "unknown", serverCode: 395 });
      }
    });
  });

  it("DL-25 rows that only look like it are data", async () => {
    const holder = { holder: "Code: 395. DB::Exception: not one (version 1)", exception: "none" };
    const logged = { exception };
    const bodies: [string, string, object[]][] = [
      ["SELECT * FROM t", JSON.stringify(holder), [holder]],
      ["SELECT exception FROM t", JSON.stringify(logged), [logged]],
      ["SELECT * FROM t", `${JSON.stringify(logged)}\n${JSON.stringify(logged)}`, [logged, logged]],
      ["SELECT * FROM t", `{"exception":"x"}\n{"exception":"y"}`, [{ exception: "x" }, { exception: "y" }]],
      ["SELECT * FROM t", `{"exception":{"a":1}}`, [{ exception: { a: 1 } }]],
    ];
    for (const [query, body, rows] of bodies) {
      await withServer([answer.rows(`${body}\n`)], async (server) => {
        expect(await read(boundClient(server.url), query)).toEqual(rows);
      });
    }
  });

  it("large results come whole, in order, in any split of their bytes", async () => {
    const rows = Array.from({ length: 30_000 }, (_, n) => ({
      a: String(n),
      text: n % 7 === 0 ? "ü".repeat(n % 50) : "",
    }));
    const text = Buffer.from(rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
    const split: Answer = (response) => {
      response.writeHead(200);
      for (let at = 0; at < text.length; at += 7_777) response.write(text.subarray(at, at + 7_777));
      response.end();
    };
    await withServer([split], async (server) => {
      const client = boundClient(server.url);
      expect(await read(client)).toEqual(rows);
      const streamed: unknown[] = [];
      const result = await client.query({ query: "SELECT 1", format: "JSONEachRow" });
      for await (const some of result.stream()) for (const row of some) streamed.push(row.json());
      expect(streamed).toEqual(rows);
    });
  });
});

describe("an error body that cannot be decoded", () => {
  const gzip = { "content-encoding": "gzip" };
  const whole = gzipSync("Code: 202. DB::Exception: too many (TOO_MANY_SIMULTANEOUS_QUERIES)");
  const cutGzip: Answer = (response) => {
    response.writeHead(503, gzip);
    response.write(whole.subarray(0, 20), () => setTimeout(() => response.socket?.resetAndDestroy(), 10));
  };

  it.each<[string, Answer, number]>([
    ["500, plain text called gzip", answer.status(500, "plain", gzip), 3],
    ["503, plain text called gzip", answer.status(503, "plain", gzip), 3],
    ["503, gzip cut in half", (response) => response.writeHead(503, gzip).end(whole.subarray(0, 20)), 3],
    ["503, gzip, then a reset", cutGzip, 3],
    ["503, an unknown encoding", answer.status(503, "x", { "content-encoding": "zebra" }), 3],
    ["400, plain text called gzip", answer.status(400, "plain", gzip), 1],
  ])(
    "%s: the status is kept, a 5xx is still tried again, and nothing is left unhandled",
    async (_name, script, requests) => {
      const unhandled: unknown[] = [];
      const note = (reason: unknown): void => void unhandled.push(reason);
      process.on("unhandledRejection", note).on("uncaughtException", note);
      await withServer([script], async (server) => {
        const compression = { response: true };
        const failed = await bounded((clock) => read(boundClient(server.url, { clock }, { compression })));
        expect(failed).toMatchObject({ code: "REQUEST_FAILED", httpStatus: Number(_name.slice(0, 3)) });
        expect(server.received).toHaveLength(requests);
        await turns();
      });
      process.off("unhandledRejection", note).off("uncaughtException", note);
      expect(unhandled).toEqual([]);
    },
  );

  it("and says so", async () => {
    await withServer([answer.status(503, "plain", gzip)], async (server) => {
      const client = boundClient(server.url, { maxAttempts: 1 }, { compression: { response: true } });
      expect((await failure(() => read(client))).message).toMatch(/HTTP 503.*could not be decoded/);
    });
  });
});
