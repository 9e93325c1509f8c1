// Goal: what the server answers, or fails to answer, becomes the right outcome and the right text. Method: a scripted server; bounds pass on
// the virtual clock.
import { describe, expect, it } from "vitest";
import { within } from "@holdfast/deadline-http";
import { closedPort } from "@holdfast/testkit";
import { boundClient, failure, read, write } from "../support/clickhouse.js";
import { bounded, knobs } from "../support/bounded.js";
import { answer, arrivals, withServer, type Answer } from "../support/scripted-server.js";
import { endsByBound } from "../support/virtual-bound.js";

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
