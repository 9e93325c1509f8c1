// Goal: each fault of the proxy does what its documentation says, and the log is the truth about it. Method: a plain
// node:http client, the proxy, and a server that notes what it received.
import type { AddressInfo } from "node:net";
import { Lateness } from "@holdfast-private/tests-machine";
import { describe, expect, it, onTestFinished } from "vitest";
import { agent, begin, call, pending } from "../support/client.js";
import { pair, proxyBefore } from "../support/pair.js";
import { inTurns, ownTimers } from "../support/timers.js";
import { closedPort, s3Objects, type CutBy, type ProxyFault } from "@holdfast/testkit";

const statement = `INSERT INTO t VALUES ${"x".repeat(64 * 1024)}`;
const insert = { match: (r: { bodyStart: string }) => r.bodyStart.startsWith("INSERT") };

describe("pass", () => {
  it("DL-32 pass: a statement of 64 KiB arrives whole and within 20 ms of its first byte, the answer comes back", async () => {
    const { proxy, server } = await pair({ rules: [{ match: () => false, fault: { kind: "stall" } }] });
    const shared = agent();
    await using lateness = await Lateness.start();
    // No timer of the proxy fires: it passes what it has, and waits for nothing.
    ownTimers();
    const added: number[] = [];
    for (let i = 0; i < 5; i++) {
      const from = performance.now();
      const done = await call(proxy.url, { body: statement, agent: shared });
      expect(done).toMatchObject({ status: 200, body: "fine" });
      const logged = proxy.requests[i]!;
      const tookMs = logged.deliveredAt! - logged.lastByteAt + (logged.answerLastByteAt! - logged.answerFirstByteAt!);
      added.push(tookMs - (await lateness.sinceMs(from)));
    }
    expect(Math.min(...added)).toBeLessThan(20);
    expect(server.received.map((r) => r.body.toString())).toEqual(Array.from({ length: 5 }, () => statement));
    expect(proxy.connections).toHaveLength(1);
    expect(proxy.requests.map((r) => [r.number, r.complete, r.delivered])).toEqual(
      [1, 2, 3, 4, 5].map((n) => [n, true, "whole"]),
    );
    const [logged] = proxy.requests;
    expect(logged!.bytes).toBe(logged!.request!.headBytes + statement.length);
    expect(logged!.deliveredBytes).toBe(logged!.bytes);
    expect(logged!.request).toMatchObject({ method: "POST", url: "/", bodyStart: statement.slice(0, 1024) });
  });

  it("DL-32 the log counts every byte once: the chunks of a direction sum to its total", async () => {
    const { proxy, server } = await pair();
    await call(proxy.url, { body: statement, headers: { "transfer-encoding": "chunked" } });
    const [connection] = proxy.connections;
    const sum = (chunks: readonly { bytes: number }[]): number => chunks.reduce((all, c) => all + c.bytes, 0);
    expect(sum(connection!.fromClient)).toBe(connection!.bytesFromClient);
    expect(sum(connection!.toServer)).toBe(connection!.bytesToServer);
    expect(connection!.bytesToServer).toBe(server.connections[0]!.bytesReceived);
    expect(connection!.bytesFromClient).toBe(proxy.requests[0]!.bytes);
    expect(server.received[0]!.body.toString()).toBe(statement);
  });

  it("DL-32 100-continue is answered by the proxy, and the server sees no expectation", async () => {
    const { proxy, server } = await pair({ rules: [{ ...insert, fault: { kind: "hold" } }] });
    const held = begin(proxy.url, { body: statement, headers: { expect: "100-continue" } });
    await proxy.until(() => proxy.requests[0]?.complete === true);
    await server.settled();
    expect(server.received).toEqual([]);
    expect(proxy.release()).toBe(1);
    expect(await held.done).toMatchObject({ status: 200, body: "fine" });
    expect(server.received[0]!.headers["expect"]).toBeUndefined();
    expect(server.received[0]!.body.length).toBe(statement.length);
  });

  it("DL-32 a refused target resets the client and stands in the log", async () => {
    const proxy = await proxyBefore(await closedPort());
    expect((await call(proxy.url)).error).toBe("ECONNRESET");
    expect(proxy.connections[0]!.serverError).toBe("ECONNREFUSED");
    expect(proxy.requests).toMatchObject([{ delivered: "nothing", deliveredBytes: 0 }]);
    expect(proxy.connections[0]!.bytesToServer).toBe(0);
  });
});

describe("requests that do not arrive, or late", () => {
  it("DL-32 stall by predicate: the chosen request is not forwarded, others are; release lets it go", async () => {
    const { proxy, server } = await pair({ rules: [{ ...insert, fault: { kind: "stall" } }] });
    const stalled = begin(proxy.url, { body: "INSERT 1" });
    expect((await call(proxy.url, { body: "SELECT 1" })).status).toBe(200);
    await proxy.until(() => proxy.requests.some((r) => r.complete && r.request?.bodyStart === "INSERT 1"));
    await server.settled();
    expect(await pending(stalled.done)).toBe(true);
    expect(server.received.map((r) => r.statement)).toEqual(["SELECT 1"]);
    expect(proxy.requests.map((r) => r.delivered).sort()).toEqual(["nothing", "whole"]);
    expect(proxy.release()).toBe(1);
    expect((await stalled.done).status).toBe(200);
  });

  it("DL-32 stall all, half-way: so many bytes arrive and no more; a client that leaves takes the rest with it", async () => {
    const { proxy, server } = await pair({ rules: [{ fault: { kind: "stall", afterBytes: 1000 } }] });
    const stalled = begin(proxy.url, { body: statement });
    await proxy.until(() => proxy.requests[0]?.complete === true);
    await server.until(() => server.connections[0]?.bytesReceived === 1000);
    stalled.leave();
    await server.until(() => server.connections[0]?.closedAt !== undefined);
    expect(proxy.release()).toBe(0);
    expect(server.received).toEqual([]);
    expect(proxy.requests[0]).toMatchObject({ delivered: "part", deliveredBytes: 1000, deliveredAt: undefined });
  });

  it("DL-32 delay by a function of the request: each waits its own time", async () => {
    const ms = (r: { url: string }): number => Number(r.url.slice(1));
    const { proxy } = await pair({ rules: [{ fault: { kind: "delay", ms } }] });
    await Promise.all([0, 40, 120].map((n) => call(`${proxy.url}/${n}`)));
    for (const logged of proxy.requests) {
      const waited = logged.deliveredFirstAt! - logged.lastByteAt;
      // A timer of Node may fire a part of a millisecond before its time.
      expect(waited).toBeGreaterThanOrEqual(ms(logged.request!) - 1.5);
      expect(logged.delivered).toBe("whole");
    }
  });

  it("DL-32 delay the first that matches: the second goes at once", async () => {
    const { proxy } = await pair({ rules: [{ ...insert, times: 1, fault: { kind: "delay", ms: 80 } }] });
    await call(proxy.url, { body: "INSERT 1" });
    await call(proxy.url, { body: "INSERT 2" });
    expect(proxy.requests.map((r) => r.faults)).toEqual([["delay"], []]);
  });

  it("DL-32 a delayed request is dropped when its client leaves first", async () => {
    const { proxy, server } = await pair({ rules: [{ fault: { kind: "delay", ms: 60_000 } }] });
    const delayed = begin(proxy.url, { body: "INSERT 1" });
    await proxy.until(() => proxy.requests[0]?.complete === true);
    delayed.leave();
    await server.until(() => server.connections[0]?.closedAt !== undefined);
    expect(server.received).toEqual([]);
    expect(proxy.requests[0]!.delivered).toBe("nothing");
  });

  it.each(["fin", "rst"] as const)(
    "DL-32 deliver late: the request arrives though the client has left (by %s); the answer is discarded",
    async (by) => {
      const { proxy, server } = await pair({ rules: [{ ...insert, fault: { kind: "hold" } }] });
      const held = begin(proxy.url, { body: statement });
      await proxy.until(() => proxy.requests[0]?.complete === true);
      if (by === "fin") held.leave();
      else held.reset();
      await proxy.until(() => proxy.connections[0]?.clientLeftAt !== undefined);
      await server.settled();
      expect(server.received).toEqual([]);
      expect(proxy.release()).toBe(1);
      await server.until(() => server.received.length === 1);
      await proxy.until(() => proxy.requests[0]?.answerComplete === true);
      expect(server.received[0]!.body.toString()).toBe(statement);
      expect(proxy.requests[0]).toMatchObject({
        delivered: "whole",
        answerDiscarded: true,
        answerPassed: 0,
        status: 200,
      });
      expect(proxy.requests[0]!.deliveredAt).toBeGreaterThan(proxy.connections[0]!.clientLeftAt!);
      await server.until(() => server.connections[0]?.closedAt !== undefined);
    },
  );

  it("DL-32 deliver late by time, the client still there: it gets the answer", async () => {
    const { proxy } = await pair({ rules: [{ fault: { kind: "hold", ms: 50 } }] });
    expect(await call(proxy.url, { body: "INSERT" })).toMatchObject({ status: 200, body: "fine" });
    expect(proxy.requests[0]!.answerDiscarded).toBe(false);
    expect(proxy.requests[0]!.deliveredAt! - proxy.requests[0]!.lastByteAt).toBeGreaterThan(48);
  });

  it("DL-32 deliver late on a reused connection that the server has closed meanwhile: on a new one", async () => {
    const timers = ownTimers();
    const once = {
      answers: [{ body: "one", delivery: { idle: { afterMs: 30, by: "fin" as const } } }, { body: "two" }],
    };
    const { proxy, server } = await pair({ rules: [{ ...insert, fault: { kind: "hold" } }] }, { scripts: [once] });
    const shared = agent();
    await call(proxy.url, { body: "SELECT", agent: shared });
    const held = begin(proxy.url, { body: "INSERT", agent: shared });
    await inTurns(() => proxy.requests[1]?.complete === true);
    expect(proxy.connections).toHaveLength(1);
    timers.advanceTimersByTime(30);
    await inTurns(() => server.connections[0]?.closedAt !== undefined);
    await proxy.settled();
    proxy.release();
    expect((await held.done).body).toBe("two");
    expect(server.received.map((r) => [r.connection, r.statement])).toEqual([
      [1, "SELECT"],
      [2, "INSERT"],
    ]);
  });
});

describe("before an object store", () => {
  it("DL-32 deliver late: an upload of 3 MB that its client gave up is stored afterwards, its answer discarded", async () => {
    const s3 = s3Objects();
    const { proxy } = await pair({}, { otherwise: s3.answer });
    proxy.use({ match: (r) => r.method === "PUT", fault: { kind: "hold" } });
    const body = Buffer.alloc(3_000_000, 7);
    const put = begin(`${proxy.url}/bucket/key`, { method: "PUT", body, headers: { expect: "100-continue" } });
    await proxy.until(() => proxy.requests[0]?.complete === true);
    put.leave();
    await proxy.until(() => proxy.connections[0]?.clientLeftAt !== undefined);
    expect(s3.objects.size).toBe(0);
    proxy.release();
    await proxy.until(() => proxy.requests[0]?.answerComplete === true);
    expect(s3.objects.get("bucket/key")?.bytes.equals(body)).toBe(true);
    expect(proxy.requests[0]).toMatchObject({ delivered: "whole", answerDiscarded: true, answerPassed: 0 });
  });

  it("DL-32 stall mid-body of a download, and a 404 that passes", async () => {
    const s3 = s3Objects();
    const { proxy } = await pair({}, { otherwise: s3.answer });
    await call(`${proxy.url}/b/other`, { method: "PUT", body: "x" });
    expect((await call(`${proxy.url}/b/none`)).status).toBe(404);
    await call(`${proxy.url}/b/k`, { method: "PUT", body: "y".repeat(5000) });
    proxy.use({ match: (r) => r.url === "/b/k", fault: { kind: "stall-answer", afterBytes: 1000 } });
    const get = begin(`${proxy.url}/b/k`);
    await proxy.until(() => proxy.requests.at(-1)?.answerPassed === 1000);
    await proxy.settled();
    expect(await pending(get.done)).toBe(true);
    get.leave();
    await proxy.until(() => proxy.connections.at(-1)?.closedAt !== undefined);
    expect(proxy.requests.at(-1)).toMatchObject({ delivered: "whole", answerPassed: 1000, answerDiscarded: true });
  });
});

describe("cuts", () => {
  const ends: [CutBy, string][] = [
    ["rst", "ECONNRESET"],
    ["fin", "ECONNRESET"],
  ];

  it.each(ends)("DL-32 cut the request after N bytes by %s: the server has exactly those", async (by, error) => {
    const { proxy, server } = await pair({ rules: [{ fault: { kind: "cut-request", afterBytes: 500, by } }] });
    expect((await call(proxy.url, { body: statement })).error).toBe(error);
    await server.until(() => server.connections[0]?.closedAt !== undefined);
    expect(server.connections[0]!.bytesReceived).toBeLessThanOrEqual(500);
    if (by === "fin") expect(server.connections[0]!.bytesReceived).toBe(500);
    expect(server.received).toEqual([]);
    expect(proxy.connections[0]!.cutBy).toBe(by);
    expect(proxy.requests[0]!.deliveredBytes).toBe(500);
    expect(proxy.requests[0]!.bytes).toBeGreaterThan(500);
  });

  it.each(ends)("DL-32 cut the answer after N bytes by %s: the request was delivered", async (by) => {
    const rule = { fault: { kind: "cut-answer", afterBytes: 60, by } as const };
    const { proxy, server } = await pair({ rules: [rule] }, { otherwise: { body: "y".repeat(5000) } });
    expect((await call(proxy.url, { body: "INSERT" })).error).toBe("ECONNRESET");
    expect(server.received).toHaveLength(1);
    expect(proxy.requests[0]).toMatchObject({ delivered: "whole", answerPassed: 60 });
  });

  it("DL-32 reset on reuse of a connection: the first request passes, the second meets a reset", async () => {
    const match = (r: { number: number }): boolean => r.number > 1;
    const { proxy, server } = await pair({
      rules: [{ match, fault: { kind: "cut-request", afterBytes: 0, by: "rst" } }],
    });
    const shared = agent();
    expect((await call(proxy.url, { agent: shared })).status).toBe(200);
    expect((await call(proxy.url, { agent: shared })).error).toBe("ECONNRESET");
    expect(server.received).toHaveLength(1);
    expect(proxy.requests[1]).toMatchObject({ number: 2, delivered: "nothing" });
    expect(proxy.requests[1]!.bytes).toBeGreaterThan(0);
  });

  it.each(["fin", "rst"] as const)("DL-32 %s on an idle connection, after the answer", async (by) => {
    const { proxy } = await pair({ rules: [{ fault: { kind: "close-idle", afterMs: 20, by } }] });
    expect((await call(proxy.url, { agent: agent() })).status).toBe(200);
    await proxy.until(() => proxy.connections[0]?.closedAt !== undefined);
    expect(proxy.connections[0]!.cutBy).toBe(by);
  });

  it("DL-32 a connection that is used again in time is not idle", async () => {
    const timers = ownTimers();
    const rule = { times: 1, fault: { kind: "close-idle", afterMs: 50, by: "rst" } as const };
    const { proxy, server } = await pair({ rules: [rule] });
    const shared = agent();
    await call(proxy.url, { agent: shared });
    timers.advanceTimersByTime(49);
    server.use({ answers: [{ body: "slow", delivery: { delayMs: 100 } }] });
    const second = begin(proxy.url, { agent: shared });
    await inTurns(() => server.received.length === 2);
    await proxy.settled();
    timers.advanceTimersByTime(100);
    expect(await second.done).toMatchObject({ status: 200, body: "slow" });
    expect(server.received.map((r) => r.connection)).toEqual([1, 1]);
    expect(proxy.connections[0]!.cutBy).toBeUndefined();
  });

  it("DL-32 the server's own end of an idle connection is passed on", async () => {
    const idle = { body: "one", delivery: { idle: { afterMs: 10, by: "fin" as const } } };
    const { proxy } = await pair({}, { otherwise: idle });
    await call(proxy.url, { agent: agent() });
    await proxy.until(() => proxy.connections[0]?.closedAt !== undefined);
    expect(proxy.connections[0]!.cutBy).toBeUndefined();
  });
});

describe("slow answers and slow connections", () => {
  it("DL-32 stall the answer after N bytes: the client has those and waits", async () => {
    const fault: ProxyFault = { kind: "stall-answer", afterBytes: 20 };
    const { proxy } = await pair({ rules: [{ fault }] });
    const waiting = begin(proxy.url);
    await proxy.until(() => proxy.requests[0]?.answerPassed === 20);
    await proxy.settled();
    expect(await pending(waiting.done)).toBe(true);
    proxy.release();
    expect((await waiting.done).body).toBe("fine");
  });

  it("DL-32 delay the answer: the server was done long before", async () => {
    const { proxy } = await pair({ rules: [{ fault: { kind: "delay-answer", ms: 60 } }] });
    await call(proxy.url);
    const sent = proxy.connections[0]!.toClient[0]!.atMs;
    expect(sent - proxy.requests[0]!.answerFirstByteAt!).toBeGreaterThan(58);
  });

  it("DL-32 trickle: one byte at a time, either way", async () => {
    const rules = [
      { fault: [{ kind: "trickle-request", everyMs: 1 } as const, { kind: "trickle-answer", everyMs: 1 } as const] },
    ];
    const { proxy } = await pair({ rules });
    expect((await call(proxy.url)).body).toBe("fine");
    const [connection] = proxy.connections;
    expect(connection!.toServer.every((c) => c.bytes === 1)).toBe(true);
    expect(connection!.toServer).toHaveLength(proxy.requests[0]!.bytes);
    expect(connection!.toClient.every((c) => c.bytes === 1)).toBe(true);
  });

  it("DL-32 paused: connections are made and wait, bytes are logged, nothing reaches the server before resume", async () => {
    const { proxy, server } = await pair();
    proxy.pause();
    const waiting = begin(proxy.url);
    await proxy.until(() => proxy.requests[0]?.complete === true);
    await server.settled();
    expect(server.connections).toEqual([]);
    proxy.resume();
    expect((await waiting.done).status).toBe(200);
  });

  it("DL-32 slow accept: nothing is served before its time; a cut at accept ends the connection", async () => {
    const faults = [{ afterMs: 60 }, { cut: "rst" as const }];
    const { proxy } = await pair({ accept: (n) => faults[n - 1] });
    expect((await call(proxy.url)).status).toBe(200);
    expect(proxy.connections[0]!.toServer[0]!.atMs - proxy.connections[0]!.openedAt).toBeGreaterThan(58);
    expect((await call(proxy.url)).error).toBe("ECONNRESET");
    expect((await call(proxy.url)).status).toBe(200);
  });
});

describe("the log", () => {
  it("DL-32 a torn head is a request of which so many bytes came, that was not delivered, and that no rule saw", async () => {
    const { connect } = await import("node:net");
    let asked = 0;
    const match = (): boolean => ++asked > 0;
    const { proxy, server } = await pair({ rules: [{ match, fault: { kind: "stall" } }] });
    const socket = connect(proxy.port, "127.0.0.1");
    socket.end("POST / HTT");
    await proxy.until(() => proxy.connections[0]?.clientLeftAt !== undefined);
    expect(proxy.requests).toMatchObject([{ bytes: 10, complete: false, request: undefined }]);
    await server.until(() => server.connections[0]?.closedAt !== undefined);
    expect(proxy.requests[0]!.delivered).toBe("part");
    expect(asked).toBe(0);
    socket.destroy();
  });

  it("DL-32 a server that goes on answering a client that has left is told by a reset", async () => {
    const { createServer } = await import("node:net");
    const told: string[] = [];
    const deaf = createServer({ allowHalfOpen: true }, (socket) => {
      const timer = setInterval(() => told.includes("end") && socket.write("HTTP/1.1 200 OK\r\n\r\n"), 5);
      socket.on("data", () => undefined);
      socket.on("end", () => told.push("end"));
      socket.on("error", () => told.push("error"));
      socket.on("close", () => clearInterval(timer));
    });
    await new Promise<void>((resolve) => deaf.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void deaf.close());
    const proxy = await proxyBefore((deaf.address() as AddressInfo).port);
    const given = begin(proxy.url);
    await proxy.until(() => proxy.requests[0]?.delivered === "whole");
    given.leave();
    await proxy.until(() => told.length === 2);
    expect(told).toEqual(["end", "error"]);
    expect(proxy.connections[0]).toMatchObject({ clientReset: true });
  });

  it("DL-32 a connection without a byte is logged with none", async () => {
    const { connect } = await import("node:net");
    const { proxy } = await pair();
    const socket = connect(proxy.port, "127.0.0.1");
    await proxy.until(() => proxy.connections.length === 1);
    socket.end();
    await proxy.until(() => proxy.connections[0]?.closedAt !== undefined);
    expect(proxy.connections[0]).toMatchObject({ bytesFromClient: 0, requests: [], fromClient: [] });
  });

  it("DL-32 pipelined requests are told apart and answered in order", async () => {
    const { connect } = await import("node:net");
    const { proxy, server } = await pair({}, { otherwise: (r) => ({ body: r.target }) });
    const socket = connect(proxy.port, "127.0.0.1");
    let text = "";
    socket.on("data", (bytes) => (text += bytes.toString()));
    socket.write(
      "GET /a HTTP/1.1\r\nhost: x\r\n\r\nPOST /b HTTP/1.1\r\ncontent-length: 2\r\n\r\nokGET /c HTTP/1.1\r\n\r\n",
    );
    await proxy.until(() => proxy.requests.filter((r) => r.answerComplete).length === 3);
    await proxy.until(() => text.endsWith("/c"));
    expect(server.received.map((r) => r.target)).toEqual(["/a", "/b", "/c"]);
    expect(text.match(/\/[abc]$|\/[abc](?=HTTP)/g)).toEqual(["/a", "/b", "/c"]);
    socket.destroy();
  });
});
