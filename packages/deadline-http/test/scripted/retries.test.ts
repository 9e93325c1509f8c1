// Goal: what is tried again is, as often as it may be, and nothing else. Method: a scripted server, whose log has the requests; pauses and bounds
// pass on the virtual clock.
import { describe, expect, it } from "vitest";
import { within } from "@holdfast/deadline-http";
import { VirtualClock } from "@holdfast/deadline-http/testing";
import { until } from "@holdfast-private/tests-machine";
import { closedPort } from "@holdfast/testkit";
import { bounded } from "../support/bounded.js";
import { boundClient, failure, read, write } from "../support/clickhouse.js";
import { answer, arrivals, serverOn, withServer, type Answer } from "../support/scripted-server.js";
import { endsByBound, endsIn, running } from "../support/virtual-bound.js";

const good = answer.rows('{"a":"1"}\n');

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
