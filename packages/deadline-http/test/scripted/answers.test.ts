// Goal: what the server answers, or fails to answer, becomes the right outcome, the right number of requests and the right
// text. Method: a scripted server; request counts are read from its log. Where pauses or bounds matter, they pass on the virtual clock.
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { within } from "@holdfast/deadline-http";
import { VirtualClock } from "@holdfast/deadline-http/testing";
import { until } from "@holdfast-private/tests-machine";
import { boundClient, failure, plainClient, read, write } from "../support/clickhouse.js";
import { answer, arrivals, closedPort, serverOn, withServer, type Answer } from "../support/scripted-server.js";
import { endsByBound, endsIn, running, throughPauses, turns } from "../support/virtual-bound.js";

const knobs = { "catalog.requestTimeoutMs": 60_000, "lease.ttlMs": 15_000 };
/** Far more than a call needs; its pauses take no time. The client is made for the clock. */
const bounded = async (call: (clock: VirtualClock) => Promise<unknown>, ms = 3_000) => {
  const clock = new VirtualClock();
  const end = failure(() => within(ms, () => call(clock), { name: "the bound", knobs, clock }));
  return throughPauses(clock, 2, running(end));
};
const good = answer.rows('{"a":"1"}\n');

describe("failures", () => {
  it.each<[string, Answer, object, object]>([
    ["reset", answer.reset, { outcome: "unknown" }, { outcome: "unknown" }],
    ["500 without a code", answer.status(500, "broken"), { outcome: "refused" }, { outcome: "unknown" }],
    ["404 of a proxy", answer.status(404, "no such page"), { outcome: "refused" }, { outcome: "unknown" }],
    ["unknown table", answer.exception(60, "UNKNOWN_TABLE", 404), { outcome: "refused" }, { outcome: "refused" }],
    ["408", answer.status(408, ""), { outcome: "unknown", timedOut: true }, { outcome: "unknown", timedOut: true }],
  ])("DL-06 %s: code, timedOut and outcome of a read and of a write", async (_name, script, ofRead, ofWrite) => {
    await withServer([script], async (server) => {
      const client = boundClient(server.url, { maxAttempts: 1 });
      const expected = { code: "REQUEST_FAILED", timedOut: false };
      expect(await bounded(() => read(client))).toMatchObject({ ...expected, ...ofRead });
      expect(await bounded(() => write(client))).toMatchObject({ ...expected, ...ofWrite });
    });
  });

  it("DL-06 silence and a caller's abort, and every knob in a timeout's message", async () => {
    await withServer([answer.silent], async (server) => {
      const client = boundClient(server.url);
      const silent = await endsByBound(
        () => write(client),
        () => server.received.length === 1,
        { ms: 150, knobs },
      );
      expect(silent).toMatchObject({ code: "DEADLINE_EXCEEDED", timedOut: true, outcome: "unknown" });
      for (const part of ["the bound of 150 ms", "catalog.requestTimeoutMs = 60000", "lease.ttlMs = 15000"]) {
        expect(silent.message).toContain(part);
      }
      const controller = new AbortController();
      void arrivals(server, 2).then(() => controller.abort());
      const query = { query: "SELECT 1", abort_signal: controller.signal } as const;
      const aborted = await bounded(() => client.query(query));
      expect(aborted).toMatchObject({ code: "CANCELED", timedOut: false, outcome: "unknown" });
    });
  });

  it("DL-23 an abort before anything is sent, and one after the headers, over real sockets", async () => {
    await withServer([answer.stalled('{"a":1}\n')], async (server) => {
      const client = boundClient(server.url);
      const before = AbortSignal.abort(new Error("own"));
      const early = await bounded(() => client.command({ query: "DROP TABLE t", abort_signal: before }));
      expect(early).toMatchObject({ code: "CANCELED", outcome: "not-sent" });
      expect(server.received).toHaveLength(0);
      const controller = new AbortController();
      void arrivals(server, 1).then(() => controller.abort());
      const late = await bounded(() => client.command({ query: "DROP TABLE t", abort_signal: controller.signal }));
      expect(late).toMatchObject({ code: "CANCELED", outcome: "unknown" });
    });
  });

  it("never shows the password", async () => {
    const port = await closedPort();
    const client = boundClient(`http://127.0.0.1:${port}`, { maxAttempts: 1 }, { password: "s3cret" });
    const failed = await bounded(() => write(client));
    expect(JSON.stringify(failed) + failed.message + String(Reflect.get(failed, "cause"))).not.toContain("s3cret");
  });
});

describe("the outcome of a write", () => {
  const listed = [60, 81, 115, 164, 192, 193, 194, 195, 202, 286, 372, 373, 497, 516];
  const unlisted = [159, 319, 473, 241, 252, 210, 999, 27, 62, 47];

  it("DL-09 is refused for codes raised before execution, and unknown for every other", async () => {
    for (const code of [...listed, ...unlisted]) {
      await withServer([answer.exception(code, "NAME")], async (server) => {
        const failed = await bounded(() => write(boundClient(server.url, { maxAttempts: 1 })));
        expect([code, failed.outcome, failed.serverCode]).toEqual([
          code,
          listed.includes(code) ? "refused" : "unknown",
          code,
        ]);
      });
    }
  });

  it("DL-09 a syntax error is one only of a statement without rows, which are parsed on the way", async () => {
    await withServer([answer.exception(62, "SYNTAX_ERROR", 400)], async (server) => {
      const client = boundClient(server.url);
      expect(await bounded(() => client.command({ query: "CREATE TABEL t" }))).toMatchObject({ outcome: "refused" });
      expect(await bounded(() => client.command({ query: "INSERT INTO t SELECT 1" }))).toMatchObject({
        outcome: "refused",
      });
      const values = "INSERT INTO t VALUES (1), (now(";
      expect(await bounded(() => client.command({ query: values }))).toMatchObject({ outcome: "unknown" });
    });
  });
});

describe("a listed code that does not prove that nothing was written", () => {
  const text = (code: number, message: string, name: string): Answer => {
    const headers = { "X-ClickHouse-Exception-Code": String(code) };
    return answer.status(500, `Code: ${code}. DB::Exception: ${message}. (${name}) (version 26.7.2.1)\n`, headers);
  };
  const view = ": while pushing to view default.mv (0c6a)";
  const shards = ": Insertion status:\nWrote 1 blocks and 5 rows on shard 0 replica 0, a:9000 (average 0 ms per block)";
  const cut: Answer = (response) => {
    response.writeHead(500, { "X-ClickHouse-Exception-Code": "60", "content-length": "500" });
    response.write("Code: 60. DB::Exc", () => setTimeout(() => response.socket?.destroy(), 20));
  };

  it.each<[string, Answer]>([
    [
      "286, of the quorum of a view",
      text(286, `Quorum for previous write has not been satisfied yet${view}`, "QUORUM"),
    ],
    ["60, of the table behind a view", text(60, `Table default.behind does not exist${view}`, "UNKNOWN_TABLE")],
    ["60, of one shard", text(60, `Received from b:9000. DB::Exception: No table default.t${shards}`, "UNKNOWN_TABLE")],
    ["60 in the headers, and a body that breaks", cut],
    [
      "60 in the headers, and a body that cannot be read",
      answer.status(500, "no gzip", { "X-ClickHouse-Exception-Code": "60", "content-encoding": "gzip" }),
    ],
  ])("DL-09 DL-13 %s: unknown, and sent once", async (_name, script) => {
    await withServer([script], async (server) => {
      expect(await bounded(() => write(boundClient(server.url)))).toMatchObject({ outcome: "unknown" });
      expect(server.received).toHaveLength(1);
    });
  });

  it("DL-09 one of a statement ON CLUSTER: other servers may have executed it", async () => {
    const message = "There was an error on [b:9000]: Code: 60. DB::Exception: Table default.t does not exist";
    await withServer([text(60, message, "UNKNOWN_TABLE")], async (server) => {
      const query = "DROP TABLE t ON\n CLUSTER c";
      const failed = await bounded(() => boundClient(server.url).command({ query }));
      expect(failed).toMatchObject({ outcome: "unknown", serverCode: 60 });
    });
  });
});

describe("DL-10 the server's own time limit", () => {
  it.each([
    ["159 as 408", answer.exception(159, "TIMEOUT_EXCEEDED", 408)],
    ["159 as 500", answer.exception(159, "TIMEOUT_EXCEEDED")],
    ["319", answer.exception(319, "UNKNOWN_STATUS_OF_INSERT")],
    ["473", answer.exception(473, "DEADLOCK_AVOIDED")],
  ])("%s is a timeout of unknown outcome, sent once, naming limit and bound", async (name, script) => {
    for (const call of [read, write]) {
      await withServer([script], async (server) => {
        let remembered: string | undefined;
        const failed = await failure(() =>
          within(600_000, (scope) => call(boundClient(server.url)).finally(() => (remembered = scope.timedOut?.name)), {
            name: "the bound",
            knobs,
          }),
        );
        expect(failed).toMatchObject({ timedOut: true, outcome: "unknown", serverCode: Number(name.slice(0, 3)) });
        expect(failed.message).toMatch(
          /own time limit .*code \d+ [A-Z_]+.*the bound of 600000 ms .*lease.ttlMs = 15000/,
        );
        expect(server.received).toHaveLength(1);
        expect(remembered).toBe("the bound");
      });
    }
  });
});

describe("what is tried again", () => {
  it("DL-11 a silent server sees one request, and an insert reset after its body is not repeated", async () => {
    await withServer([answer.silent], async (server) => {
      const clock = new VirtualClock();
      await endsByBound(
        () => read(boundClient(server.url, { clock })),
        () => server.received.length === 1,
      );
      await clock.advance(10_000);
      expect([server.received.length, clock.pending]).toEqual([1, 0]);
    });
    await withServer([answer.reset], async (server) => {
      expect(await bounded(() => write(boundClient(server.url)))).toMatchObject({ outcome: "unknown" });
      expect(server.received).toHaveLength(1);
      expect(server.received[0]?.body).toBe('{"a":1}\n');
    });
  });

  it("DL-11 refused twice, then open: the third attempt of a write succeeds, once", async () => {
    const port = await closedPort();
    const clock = new VirtualClock();
    const client = boundClient(`http://127.0.0.1:${port}`, { clock });
    const call = within(3_000, () => write(client), { clock });
    // The pauses are virtual, the connections are not: the next pause (beside the scope's timer) shows a refusal.
    const refusal = async (): Promise<void> => {
      await until("it pauses", () => clock.pending === 3);
    };
    await refusal();
    await clock.advance(100);
    await refusal();
    const server = await serverOn(port, [answer.ok]);
    await clock.advance(200);
    expect(await call).toMatchObject({ executed: true });
    expect([server.received.length, clock.now(), clock.pending]).toEqual([1, 300, 0]);
    await server[Symbol.asyncDispose]();
  });

  const retryable = [3, 202, 209, 210, 236, 279, 289, 425, 999, 1000];
  it("DL-12 a read: the matrix of answers and the number of requests", async () => {
    const matrix: [string, Answer, number][] = [
      ["reset", answer.reset, 3],
      ["500 naming no code", answer.status(500, "?"), 3],
      ["503 naming no code", answer.status(503, ""), 3],
      ["400", answer.status(400, "?"), 1],
      ["404 with a retryable code", answer.exception(210, "NETWORK_ERROR", 404), 1],
      ...retryable.map((code): [string, Answer, number] => [`500 with ${code}`, answer.exception(code, "NAME"), 3]),
      ...[60, 62, 241, 252, 286].map((code): [string, Answer, number] => [
        `500 with ${code}`,
        answer.exception(code, "NAME"),
        1,
      ]),
      ["200 with 999 in its headers", answer.exception(999, "KEEPER_EXCEPTION", 200), 3],
      ["a body cut before its end", answer.cutAfter('{"a":1}\n'), 3],
    ];
    const counts = await Promise.all(
      matrix.map(([name, script]) =>
        withServer([script], async (server) => {
          await bounded((clock) => read(boundClient(server.url, { clock })));
          return [name, server.received.length];
        }),
      ),
    );
    expect(counts).toEqual(matrix.map(([name, , count]) => [name, count]));
  });

  it("DL-12 none of them for a write, and a broken read succeeds on its second attempt, on a new connection", async () => {
    const scripts = [answer.reset, answer.status(503, ""), ...retryable.map((code) => answer.exception(code, "NAME"))];
    for (const script of scripts) {
      await withServer([script], async (server) => {
        await bounded((clock) => write(boundClient(server.url, { clock })));
        expect(server.received).toHaveLength(1);
      });
    }
    await withServer([good, answer.reset, good], async (server) => {
      const client = boundClient(server.url);
      await read(client);
      expect(await read(client)).toEqual([{ a: "1" }]);
      expect(server.received.map(({ connection }) => connection)).toEqual([0, 0, 1]);
      const ids = server.received.map(({ url }) => url.searchParams.get("query_id"));
      expect(new Set(ids).size).toBe(3);
    });
  });

  it("DL-12 TLS errors are not", async () => {
    let connections = 0;
    await withServer([answer.ok], async (server) => {
      // The server speaks plain HTTP: the handshake fails the same way each time.
      const failed = await bounded((clock) => read(boundClient(server.url.replace("http:", "https:"), { clock })));
      expect(failed).toMatchObject({ code: "REQUEST_FAILED", outcome: "not-sent" });
      connections = server.connections.length;
    });
    expect(connections).toBe(1);
  });

  it("DL-13 286 on a write is refused and goes again inside the deadline", async () => {
    const busy = answer.exception(286, "UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE");
    await withServer([busy, answer.ok], async (server) => {
      expect(await write(boundClient(server.url))).toMatchObject({ executed: true });
      expect(server.received).toHaveLength(2);
    });
    await withServer([busy], async (server) => {
      const failed = await bounded((clock) => write(boundClient(server.url, { maxAttempts: 99, clock })), 1_000);
      expect(failed).toMatchObject({ code: "REQUEST_FAILED", outcome: "refused", serverCode: 286 });
      // Of pauses of 100, 200, 400 and 800 ms the last does not fit.
      expect(failed.message).toContain("not tried again: 300 ms left, the next pause is 800 ms");
      expect(server.received).toHaveLength(4);
    });
  });

  it("DL-05 503 after 500 ms with 900 ms to go: fewer requests than allowed, and none later", async () => {
    let release = (): void => undefined;
    const held: Answer = (response) => (release = () => void response.writeHead(503).end());
    await withServer([held], async (server) => {
      const clock = new VirtualClock();
      const call = running(failure(() => within(900, () => read(boundClient(server.url, { clock })), { clock })));
      await arrivals(server, 1);
      await clock.advance(500);
      release();
      await until("it pauses", () => clock.pending === 3);
      await clock.advance(100);
      await arrivals(server, 2);
      expect(await endsIn(clock, 300, call)).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "unknown" });
      // Nothing waits that could send a third.
      expect([server.received.length, clock.pending]).toEqual([2, 0]);
    });
  });

  it("a stream of rows is sent again only when nothing was taken from it", async () => {
    const { Readable } = await import("node:stream");
    const rows = () => Readable.from([{ a: 1 }, { a: 2 }]);
    const insert = (url: string) =>
      bounded((clock) => boundClient(url, { clock }).insert({ table: "t", values: rows(), format: "JSONEachRow" }));
    const busy = answer.exception(286, "UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE");
    await withServer([busy], async (server) => {
      expect(await insert(server.url)).toMatchObject({ outcome: "refused" });
      expect(server.received.map(({ body }) => body)).toEqual(['{"a":1}\n{"a":2}\n']);
    });
  });
});

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
    ["503, an encoding that nobody knows", answer.status(503, "x", { "content-encoding": "zebra" }), 3],
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
