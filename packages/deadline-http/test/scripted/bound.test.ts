// Goal: one bound covers every phase of a request, and the outcome says what the server may have done.
// Method: real sockets on loopback, one phase at a time made to hang; the server's and the caller's clock agree on when.
import { Agent } from "node:http";
import { createServer, type AddressInfo, type LookupFunction, type Socket } from "node:net";
import { Readable } from "node:stream";
import type { ClickHouseClient } from "@clickhouse/client";
import { describe, expect, it, onTestFinished } from "vitest";
import { detached, instantAfter, systemClock, within, withDeadline } from "@holdfast/deadline-http";
import type { BindOptions } from "@holdfast/deadline-http/clickhouse";
import { boundClient, failure, plainClient, read, write, type Failed } from "../support/clickhouse.js";
import { answer, arrivals, closedPort, withServer, type Answer, type Received } from "../support/scripted-server.js";

const boundMs = 300;
/** The bound, and the tolerance that the requirement gives. */
const inTime = (tookMs: number): void => {
  expect(tookMs).toBeLessThan(boundMs + 100);
};
const bounded = (call: () => Promise<unknown>) => failure(() => within(boundMs, call, { name: "the bound" }));

const never: LookupFunction = () => undefined;

/** An agent whose connections stay in the state "connecting", or never come to be. */
function agent(o: object): Agent {
  const made = new Agent({ keepAlive: true, ...o });
  onTestFinished(() => made.destroy());
  return made;
}

/** Accepts connections, notes the bytes, says nothing. */
async function deafServer(): Promise<{ port: number; bytes: () => number }> {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on("error", () => undefined).resume();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { port, bytes: () => sockets.reduce((sum, socket) => sum + socket.bytesRead, 0) };
}

describe("DL-03 a phase that hangs ends by the bound", () => {
  it("DL-03 DL-07 waiting for a socket: not sent", async () => {
    await withServer([answer.silent], async (server) => {
      const client = boundClient(server.url, {}, { max_open_connections: 1 });
      const first = failure(() => within(2_000, () => write(client)));
      await arrivals(server, 1);
      const queued = await bounded(() => write(client));
      inTime(queued.tookMs);
      expect(queued).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "not-sent", timedOut: true });
      expect(server.received).toHaveLength(1);
      expect(await first).toMatchObject({ outcome: "unknown" });
    });
  });

  it("DL-03 DL-07 looking up the name, and connecting: not sent", async () => {
    const http_agent = agent({ lookup: never });
    const failed = await bounded(() => write(boundClient("http://localhost:9", {}, { http_agent })));
    inTime(failed.tookMs);
    expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "not-sent" });
  });

  it("DL-03 DL-07 TLS that is not finished: not sent, though the connection stands", async () => {
    const deaf = await deafServer();
    const failed = await bounded(() => write(boundClient(`https://127.0.0.1:${deaf.port}`)));
    inTime(failed.tookMs);
    expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "not-sent" });
    // The client's hello came; of the request, encrypted or not, nothing could.
    expect(deaf.bytes()).toBeGreaterThan(0);
  });

  it("DL-03 headers: unknown", async () => {
    await withServer([answer.silent], async (server) => {
      for (const call of [read, write]) {
        const failed = await bounded(() => call(boundClient(server.url)));
        inTime(failed.tookMs);
        expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "unknown", timedOut: true });
        expect(failed.message).toContain("the bound of 300 ms ran out");
      }
      // DL-11: a timeout is not repeated.
      expect(server.received).toHaveLength(2);
    });
  });

  it.each([
    ["stalled", answer.stalled('{"a":1}\n')],
    ["trickling", answer.trickle(40)],
  ])("DL-03 a body that is %s, of a read, a command and a stream", async (_name, body) => {
    await withServer([body], async (server) => {
      const calls = [
        () => read(boundClient(server.url)),
        () => boundClient(server.url).command({ query: "OPTIMIZE TABLE t" }),
        () => write(boundClient(server.url)),
        async () => {
          const clickhouse_settings = { wait_end_of_query: 0 } as const;
          const query = { query: "SELECT a FROM t", format: "JSONEachRow", clickhouse_settings } as const;
          const result = await boundClient(server.url).query(query);
          for await (const rows of result.stream()) expect(rows.length).toBeGreaterThan(0);
        },
        async () => (await boundClient(server.url).exec({ query: "SELECT 1 FORMAT TSV" })).stream.toArray(),
      ];
      for (const call of calls) {
        const failed = await bounded(call);
        inTime(failed.tookMs);
        expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "unknown", timedOut: true });
      }
      await systemClock.sleep(50);
      expect(server.connections.every((socket) => socket.destroyed)).toBe(true);
    });
  });

  it("outside any scope requestTimeoutMs is the bound, and the vendor's own limit is told as one too", async () => {
    await withServer([answer.silent], async (server) => {
      const own = await failure(() => write(boundClient(server.url, { requestTimeoutMs: 200 })));
      expect(own).toMatchObject({ code: "DEADLINE_EXCEEDED", bound: { name: "requestTimeoutMs", ms: 200 } });
      expect(own.tookMs).toBeLessThan(300);
      const vendor = await failure(() => write(boundClient(server.url, {}, { request_timeout: 150 })));
      expect(vendor).toMatchObject({
        code: "DEADLINE_EXCEEDED",
        timedOut: true,
        outcome: "unknown",
        bound: { ms: 150 },
      });
      expect(server.received).toHaveLength(2);
    });
  });
});

describe("the client's own request_timeout", () => {
  const limit = { request_timeout: 150 };
  const own = { code: "DEADLINE_EXCEEDED", timedOut: true, bound: { ms: 150 } };
  // The scope is only there to end what nothing else does.
  const ends = (call: () => Promise<unknown>) => failure(() => within(5_000, call));

  it("ends a connection, or a handshake, that does not come to be: not sent", async () => {
    const deaf = await deafServer();
    const unsecured = await ends(() => write(boundClient(`https://127.0.0.1:${deaf.port}`, {}, limit)));
    expect(unsecured).toMatchObject({ ...own, outcome: "not-sent" });
    const http_agent = agent({ lookup: never });
    const unfound = await ends(() => write(boundClient("http://localhost:9", {}, { ...limit, http_agent })));
    expect(unfound).toMatchObject({ ...own, outcome: "not-sent" });
  });

  it("DL-11 ends a body that stalls, an error's too: unknown, and a read does not go again", async () => {
    const stalledError: Answer = (response) => {
      response.writeHead(500, { "content-length": "60" }).write("Code: ");
    };
    for (const script of [answer.stalled('{"a":1}\n'), stalledError]) {
      await withServer([script], async (server) => {
        for (const call of [read, write]) {
          expect(await ends(() => call(boundClient(server.url, {}, limit)))).toMatchObject({
            ...own,
            outcome: "unknown",
          });
        }
        expect(server.received).toHaveLength(2);
      });
    }
  });
});

describe("what is proved not sent", () => {
  it("DL-02 under 1 ms left no connection is made", async () => {
    await withServer([answer.ok], async (server) => {
      const client = boundClient(server.url);
      const failed = await failure(() => withDeadline(instantAfter(systemClock.now(), 0.9), () => write(client)));
      expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED", timedOut: true, outcome: "not-sent" });
      await systemClock.sleep(30);
      expect(server.connections).toHaveLength(0);
    });
  });

  it("DL-07 a refused connection and a name that is not found", async () => {
    const port = await closedPort();
    const refused = await failure(() => write(boundClient(`http://127.0.0.1:${port}`, { maxAttempts: 1 })));
    expect(refused).toMatchObject({ code: "REQUEST_FAILED", outcome: "not-sent", timedOut: false });
    expect(refused.message).toContain("ECONNREFUSED");

    const notFound: LookupFunction = (name, _options, callback) =>
      callback(Object.assign(new Error(`getaddrinfo ENOTFOUND ${name}`), { code: "ENOTFOUND" }), "", 4);
    const http_agent = agent({ lookup: notFound });
    const unresolved = await failure(() =>
      write(boundClient("http://localhost:9", { maxAttempts: 1 }, { http_agent })),
    );
    expect(unresolved).toMatchObject({ outcome: "not-sent" });
  });

  it("a client that cannot be watched proves it by the error alone", async () => {
    const port = await closedPort();
    // As an integration that brings its own connection does: the vendor's socket pool is not to be seen.
    const unwatchable = (url: string): ClickHouseClient => {
      const inner = Reflect.get(plainClient(url), "connection") as Record<string, (params: unknown) => unknown>;
      const names = ["query", "exec", "command", "insert", "ping", "close"];
      const connection = Object.fromEntries(names.map((name) => [name, (params: unknown) => inner[name]!(params)]));
      return boundClient(url, { maxAttempts: 1 }, { connection: connection as never });
    };
    const refused = await failure(() => write(unwatchable(`http://127.0.0.1:${port}`)));
    expect(refused).toMatchObject({ code: "REQUEST_FAILED", outcome: "not-sent" });
    await withServer([answer.silent], async (server) => {
      const failed = await failure(() => within(100, () => write(unwatchable(server.url))));
      expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "unknown" });
    });
  });
});

describe("a call that ends while its answer comes", () => {
  it("leaves no body unread: it is destroyed", async () => {
    const body = new Readable({ read: () => undefined });
    // The answer's headers win by a hair: they come out of the abort itself, too late for a listener.
    const query = ({ abort_signal }: { abort_signal: AbortSignal }): Promise<unknown> =>
      new Promise((resolve) =>
        abort_signal.addEventListener("abort", () => resolve({ query_id: "x", stream: body, response_headers: {} })),
      );
    const other = (): Promise<void> => Promise.resolve();
    const connection = { query, exec: query, command: query, insert: query, ping: other, close: other };
    const client = boundClient("http://127.0.0.1:9", { maxAttempts: 1 }, { connection: connection as never });
    expect(await failure(() => within(50, () => read(client)))).toMatchObject({ code: "DEADLINE_EXCEEDED" });
    await systemClock.sleep(20);
    expect(body.destroyed).toBe(true);
  });
});

describe("the computed settings", () => {
  const settings: BindOptions["settings"] = ({ msLeft }) => ({
    max_execution_time: msLeft / 1_000,
    insert_quorum: "2",
  });
  const ms = 1_500;
  const capOf = (request: Received): number => Number(request.url.searchParams.get("max_execution_time")) * 1_000;
  /**
   * A cap that was computed no earlier than `usableAt`, when there was a socket to use, ends by the deadline if it starts
   * then; what the request needs from there to the server comes on top.
   */
  const endsInTime = (request: Received, usableAt: number, deadline: number): void => {
    expect(capOf(request)).toBeGreaterThan(0);
    expect(capOf(request)).toBeLessThanOrEqual(deadline - usableAt);
    expect(request.url.searchParams.get("insert_quorum")).toBe("2");
  };

  it("DL-24 after 600 ms in the queue the server's cap still ends by the client's deadline", async () => {
    let freedAt: number = Infinity;
    const slow: Answer = (response) =>
      void setTimeout(() => {
        freedAt = systemClock.now();
        response.end();
      }, 600);
    await withServer([slow, answer.ok], async (server) => {
      const client = boundClient(server.url, { settings }, { max_open_connections: 1 });
      const first = within(5_000, () => write(client));
      await arrivals(server, 1);
      const deadline = instantAfter(systemClock.now(), ms);
      await withDeadline(deadline, () => write(client));
      await first;
      endsInTime(server.received[1]!, freedAt, deadline);
    });
  });

  it("DL-24 and after a connect of 400 ms", async () => {
    let foundAt: number = Infinity;
    const slowly: LookupFunction = (_name, _options, callback) => {
      setTimeout(() => {
        foundAt = systemClock.now();
        callback(null, "127.0.0.1", 4);
      }, 400);
    };
    await withServer([answer.ok], async (server) => {
      const http_agent = agent({ lookup: slowly, autoSelectFamily: false });
      const client = boundClient(`http://localhost:${server.port}`, { settings }, { http_agent });
      const deadline = instantAfter(systemClock.now(), ms);
      await withDeadline(deadline, () => write(client));
      endsInTime(server.received[0]!, foundAt, deadline);
    });
  });

  it("DL-24 an attempt whose cap would outlast the deadline is withheld", async () => {
    await withServer([answer.ok], async (server) => {
      const client = boundClient(server.url, { settings: () => ({ max_execution_time: 5 }) });
      const failed = await failure(() => within(1_000, () => write(client)));
      expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "not-sent" });
      expect(failed.message).toContain("max_execution_time of 5000 ms would end after");
      expect(server.received).toHaveLength(0);
      await within(6_000, () => write(client));
      expect(server.received).toHaveLength(1);
    });
  });
});

describe("many requests", () => {
  it("every one of 50 parallel scopes over two sockets ends at its own deadline", async () => {
    await withServer([answer.silent], async (server) => {
      const client = boundClient(server.url, {}, { max_open_connections: 2 });
      const calls = Array.from({ length: 50 }, async (_, n) => {
        const ms = 100 + n * 20;
        const inner = (): Promise<unknown> => within(5_000, () => read(client), { name: "nested" });
        return { ms, ...(await failure(() => within(ms, inner, { name: `scope ${n}` }))) };
      });
      for (const { ms, tookMs } of await Promise.all(calls)) {
        expect(tookMs).toBeLessThan(ms + 100);
      }
    });
  });

  it("a body that is read after its scope was left, or after its deadline, fails with that", async () => {
    await withServer([answer.rows('{"a":1}\n')], async (server) => {
      const client = boundClient(server.url, { requestTimeoutMs: 100 });
      const query = { query: "SELECT a FROM t", format: "JSONEachRow" } as const;
      const left = await within(1_000, () => client.query(query));
      expect(await failure(() => left.json())).toMatchObject({ code: "SCOPE_CLOSED" });
      const late = await client.query(query);
      await systemClock.sleep(150);
      expect(await failure(() => late.text())).toMatchObject({ code: "DEADLINE_EXCEEDED" });
    });
  });
});

describe("late timers", () => {
  it("DL-29 the loop is blocked across the bound: a reply in the socket is used, and without one the delay is told", async () => {
    const block = (ms: number): void => {
      const end = performance.now() + ms;
      while (performance.now() < end);
    };
    const { spawn } = await import("node:child_process");
    // The server must be another process: this one's loop stands still.
    const code =
      'require("http").createServer((q, r) => q.resume().on("end", () => { console.log("in"); if (q.url.includes("reply")) setTimeout(() => r.end("x"), 100); })).listen(0, "127.0.0.1", function () { console.log(this.address().port) })';
    const child = spawn(process.execPath, ["-e", code], { stdio: ["ignore", "pipe", "inherit"] });
    onTestFinished(() => void child.kill());
    const said = (): Promise<string> =>
      new Promise((resolve) => child.stdout.once("data", (d: Buffer) => resolve(String(d).trim())));
    const port = await said();
    const call = async (database: string): Promise<unknown> => {
      const client = boundClient(`http://127.0.0.1:${port}`, {}, { database });
      const start = performance.now();
      const blocked = said().then(() => block(1_300 - (performance.now() - start)));
      const [answered] = await Promise.all([
        within(1_000, () => client.command({ query: "SYSTEM FLUSH LOGS" })),
        blocked,
      ]);
      return answered;
    };
    expect(await call("reply")).toMatchObject({ query_id: expect.any(String) as string });
    const failed = await failure(() => call("silence"));
    expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED" });
    expect(failed.message).toMatch(/the event loop was [23]\d\d ms late/);
  });
});

describe("scopes over real sockets", () => {
  it("DL-18 a forgotten await and a timer in a scope that was left reach no server, and the next scope works", async () => {
    await withServer([answer.ok], async (server) => {
      const client = boundClient(server.url);
      const late: Promise<Failed>[] = [];
      let left = false;
      const stretch = (): Promise<unknown> =>
        withDeadline(instantAfter(systemClock.now(), 5_000), async () => {
          const afterwards = async (): Promise<void> => {
            while (!left) await systemClock.sleep(5);
          };
          const forgotten = afterwards().then(() => write(client));
          late.push(failure(() => forgotten));
          const timer = (): void => {
            if (left) late.push(failure(() => write(client)));
            else systemClock.setTimer(5, timer);
          };
          timer();
          await write(client);
        });
      await stretch();
      left = true;
      while (late.length < 2) await systemClock.sleep(5);
      for (const end of await Promise.all(late))
        expect(end).toMatchObject({ code: "SCOPE_CLOSED", outcome: "not-sent" });
      expect([late.length, server.received.length]).toEqual([2, 1]);
      await write(client);
      expect(server.received).toHaveLength(2);
    });
  });

  it("DL-20 the loss of one request cancels two that wait for a socket: no byte of them arrives", async () => {
    let release: () => void = () => undefined;
    const held: Answer = (response) => {
      release = () => response.end();
    };
    await withServer([held], async (server) => {
      const client = boundClient(server.url, {}, { max_open_connections: 1 });
      let lost = false;
      const [sent, ...queued] = await withDeadline(
        () => (lost ? "gone" : instantAfter(systemClock.now(), 9_000)),
        async () => {
          const running = write(client).then(() => "answered");
          await arrivals(server, 1);
          const waiting = [failure(() => write(client)), failure(() => write(client))];
          await systemClock.sleep(50);
          lost = true;
          const losers = await Promise.all([...waiting, failure(() => write(client))]);
          release();
          return [await running, ...losers];
        },
      );
      expect(sent).toBe("answered");
      for (const one of queued) expect(one).toMatchObject({ code: "LEASE_LOST", outcome: "not-sent" });
      await systemClock.sleep(50);
      expect(server.received).toHaveLength(1);
    });
  });

  it("DL-22 a token asked for in a scope of 50 ms serves a patient one: one request", async () => {
    const slow: Answer = (response) => void setTimeout(() => response.end('{"token":"t"}\n'), 300);
    await withServer([slow], async (server) => {
      const client = boundClient(server.url);
      let asked: Promise<unknown> | null = null;
      const token = (): Promise<unknown> => detached(() => (asked ??= within(4_000, () => read(client))));
      const hasty = failure(() => within(50, token));
      const patient = within(5_000, token);
      expect(await hasty).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "not-sent" });
      expect(await patient).toEqual([{ token: "t" }]);
      expect(server.received).toHaveLength(1);
    });
  });

  it("an insert on a pooled socket that is reset under it is unknown, and the server sees it once", async () => {
    await withServer([answer.ok, answer.reset], async (server) => {
      const client = boundClient(server.url);
      await write(client);
      expect(await failure(() => write(client))).toMatchObject({ code: "REQUEST_FAILED", outcome: "unknown" });
      expect(server.received.map(({ connection }) => connection)).toEqual([0, 0]);
    });
  });
});
