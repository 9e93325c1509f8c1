// Goal: one bound covers every phase of a request, and the outcome says what the server may have done. Method: real sockets on
// loopback, one phase at a time made to hang; when the call hangs there, its bound passes on the virtual clock.
import type { Agent } from "node:http";
import { createServer, type AddressInfo, type LookupFunction, type Socket } from "node:net";
import { Readable } from "node:stream";
import type { ClickHouseClient } from "@clickhouse/client";
import { describe, expect, it, onTestFinished } from "vitest";
import { instantAfter, within, withDeadline } from "@holdfast/deadline-http";
import { VirtualClock } from "@holdfast/deadline-http/testing";
import { until } from "@holdfast-private/tests-machine";
import { closedPort } from "@holdfast/testkit";
import { agent, queued } from "../support/agents.js";
import { boundClient, failure, plainClient, read, write, type Failed } from "../support/clickhouse.js";
import { answer, arrivals, withServer, type Answer } from "../support/scripted-server.js";
import { endsByBound, endsByMachine, endsIn, running, turns } from "../support/virtual-bound.js";

const idle = ({ freeSockets }: Agent): number => Object.values(freeSockets).flat().length;
/** Something of an answer has come. */
const answered = ({ sockets }: Agent): boolean =>
  Object.values(sockets).some((some) => some?.some(({ bytesRead }) => bytesRead > 0));

/** An agent that never finds a name, and how often it was asked for one. */
function nameless(): { http_agent: Agent; asked: () => number } {
  let asked = 0;
  const lookup: LookupFunction = () => void (asked += 1);
  return { http_agent: agent({ lookup }), asked: () => asked };
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
      const http_agent = agent({ maxSockets: 1 });
      const client = boundClient(server.url, {}, { http_agent });
      const clock = new VirtualClock();
      const first = failure(() => within(2_000, () => write(client), { clock }));
      await arrivals(server, 1);
      const second = await endsByBound(
        () => write(client),
        () => queued(http_agent) === 1,
      );
      expect(second).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "not-sent", timedOut: true });
      expect(server.received).toHaveLength(1);
      await clock.advance(2_000);
      expect(await first).toMatchObject({ outcome: "unknown" });
    });
  });

  it("DL-03 DL-07 looking up the name, and connecting: not sent", async () => {
    const { http_agent, asked } = nameless();
    const client = boundClient("http://localhost:9", {}, { http_agent });
    const failed = await endsByBound(
      () => write(client),
      () => asked() === 1,
    );
    expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "not-sent" });
  });

  it("DL-03 DL-07 TLS that is not finished: not sent, though the connection stands", async () => {
    const deaf = await deafServer();
    const failed = await endsByBound(
      () => write(boundClient(`https://127.0.0.1:${deaf.port}`)),
      // The client's hello came; of the request, encrypted or not, nothing could.
      () => deaf.bytes() > 0,
    );
    expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "not-sent" });
  });

  it("DL-03 headers: unknown", async () => {
    await withServer([answer.silent], async (server) => {
      for (const [n, call] of [read, write].entries()) {
        const failed = await endsByBound(
          () => call(boundClient(server.url)),
          () => server.received.length > n,
        );
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
      const calls: ((client: ClickHouseClient) => Promise<unknown>)[] = [
        read,
        (client) => client.command({ query: "OPTIMIZE TABLE t" }),
        write,
        async (client) => {
          const clickhouse_settings = { wait_end_of_query: 0 } as const;
          const query = { query: "SELECT a FROM t", format: "JSONEachRow", clickhouse_settings } as const;
          const result = await client.query(query);
          for await (const rows of result.stream()) expect(rows.length).toBeGreaterThan(0);
        },
        async (client) => (await client.exec({ query: "SELECT 1 FORMAT TSV" })).stream.toArray(),
      ];
      const ends = calls.map((call) => {
        const http_agent = agent();
        return endsByBound(
          () => call(boundClient(server.url, {}, { http_agent })),
          () => answered(http_agent),
        );
      });
      for (const failed of await Promise.all(ends)) {
        expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "unknown", timedOut: true });
      }
      await until("the sockets go", () => server.connections.every((socket) => socket.destroyed));
      expect(server.received).toHaveLength(calls.length);
    });
  });

  it("outside any scope requestTimeoutMs is the bound", async () => {
    await withServer([answer.silent], async (server) => {
      const clock = new VirtualClock();
      const own = running(failure(() => write(boundClient(server.url, { requestTimeoutMs: 200, clock }))));
      await arrivals(server, 1);
      const failed = await endsIn(clock, 200, own);
      expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED", bound: { name: "requestTimeoutMs", ms: 200 } });
      expect(server.received).toHaveLength(1);
    });
  });

  it("by the machine's own clock, too: a timer for the bound and 100 ms finds it ended", async () => {
    await withServer([answer.silent], async (server) => {
      const failed = await endsByMachine(300, () => write(boundClient(server.url)));
      expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED" });
    });
  });
});

describe("the client's own request_timeout", () => {
  const limit = { request_timeout: 150 };
  const own = { code: "DEADLINE_EXCEEDED", timedOut: true, bound: { ms: 150 } };
  // The scope is there to end what nothing else does: its timer runs in the same loop, so it comes second on any machine.
  const ends = (call: () => Promise<unknown>): Promise<Failed> => failure(() => within(5_000, call));

  /** A client with that limit and a connection that stands, so that no machine is too slow to send within it. */
  async function connected(url: string): Promise<ClickHouseClient> {
    const http_agent = agent({ maxSockets: 1 });
    await plainClient(url, { http_agent }).command({ query: "SELECT 'warm'" });
    await until("the connection is free", () => idle(http_agent) === 1);
    return boundClient(url, {}, { ...limit, http_agent });
  }
  const warm =
    (script: Answer): Answer =>
    (response, request) =>
      request.statement.includes("'warm'") ? response.end() : script(response, request);

  it("ends a connection, or a handshake, that does not come to be: not sent", async () => {
    const deaf = await deafServer();
    const unsecured = await ends(() => write(boundClient(`https://127.0.0.1:${deaf.port}`, {}, limit)));
    expect(unsecured).toMatchObject({ ...own, outcome: "not-sent" });
    const { http_agent } = nameless();
    const unfound = await ends(() => write(boundClient("http://localhost:9", {}, { ...limit, http_agent })));
    expect(unfound).toMatchObject({ ...own, outcome: "not-sent" });
  });

  it("DL-11 ends a wait for an answer, and a body that stalls, an error's too: unknown, and a read does not go again", async () => {
    const stalledError: Answer = (response) => {
      response.writeHead(500, { "content-length": "60" }).write("Code: ");
    };
    const scripts = [answer.silent, answer.stalled('{"a":1}\n'), stalledError];
    const all = scripts.map((script) =>
      withServer([warm(script)], async (server) => {
        const calls = [read, write].map(async (call) => {
          const client = await connected(server.url);
          return ends(() => call(client));
        });
        for (const failed of await Promise.all(calls)) expect(failed).toMatchObject({ ...own, outcome: "unknown" });
        const received = (): number => server.received.filter(({ statement }) => !statement.includes("'warm'")).length;
        await until("both have arrived", () => received() >= 2);
        expect(received()).toBe(2);
      }),
    );
    await Promise.all(all);
  });
});

describe("what is proved not sent", () => {
  it("DL-02 under 1 ms left no connection is made", async () => {
    await withServer([answer.ok], async (server) => {
      const clock = new VirtualClock();
      const client = boundClient(server.url);
      const failed = await failure(() => withDeadline(instantAfter(clock.now(), 0.9), () => write(client), { clock }));
      expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED", timedOut: true, outcome: "not-sent" });
      // One that had been made would be accepted before this one's.
      await plainClient(server.url).command({ query: "SELECT 1" });
      expect(server.connections).toHaveLength(1);
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
      const failed = await endsByBound(
        () => write(unwatchable(server.url)),
        () => server.received.length === 1,
      );
      expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "unknown" });
    });
  });
});

describe("a call that ends while its answer comes", () => {
  it("leaves no body unread: it is destroyed", async () => {
    const body = new Readable({ read: () => undefined });
    let asked = 0;
    // The answer's headers win by a hair: they come out of the abort itself, too late for a listener.
    const query = ({ abort_signal }: { abort_signal: AbortSignal }): Promise<unknown> =>
      new Promise((resolve) => {
        asked += 1;
        abort_signal.addEventListener("abort", () => resolve({ query_id: "x", stream: body, response_headers: {} }));
      });
    const other = (): Promise<void> => Promise.resolve();
    const connection = { query, exec: query, command: query, insert: query, ping: other, close: other };
    const client = boundClient("http://127.0.0.1:9", { maxAttempts: 1 }, { connection: connection as never });
    const failed = await endsByBound(
      () => read(client),
      () => asked === 1,
    );
    expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED" });
    await turns();
    expect(body.destroyed).toBe(true);
  });
});
