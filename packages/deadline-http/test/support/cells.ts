// The cells that every adapter has to pass (DL-27): each phase of a request made to hang, and what proves an outcome.
// The oracle is what a server received; the adapter under test gives no more than a read and a write. Bounds and pauses pass on the virtual
// clock, when the call hangs or pauses.
import { once } from "node:events";
import type { Agent } from "node:http";
import { createServer, Socket, type AddressInfo, type LookupFunction } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { instantAfter, within, withDeadline, type Clock } from "@holdfast/deadline-http";
import { VirtualClock } from "@holdfast/deadline-http/testing";
import { until } from "@holdfast-private/tests-machine";
import { closedPort } from "@holdfast/testkit";
import { failure } from "./clickhouse.js";
import { answer, arrivals, withServer, type Answer } from "./scripted-server.js";
import { endsByBound, endsByMachine, endsIn, running } from "./virtual-bound.js";

export interface ClientOptions {
  readonly maxSockets?: number;
  readonly lookup?: LookupFunction;
  readonly maxAttempts?: number;
  readonly clock?: Clock;
}

export interface CellClient {
  /** A read that takes the whole body. */
  read(signal?: AbortSignal): Promise<unknown>;
  write(signal?: AbortSignal): Promise<unknown>;
  /** Of requests in the clear. */
  readonly agent: Agent;
}

export interface Adapter {
  readonly name: string;
  /** A bound client for this address, closed when the test is over. */
  client(url: string, o?: ClientOptions): CellClient;
  /** A good answer to the write. */
  readonly written: Answer;
}

/** The call hangs, and ends by its bound. */
async function exceeds(call: () => Promise<unknown>, hangs: () => boolean, outcome: string): Promise<void> {
  expect(await endsByBound(call, hangs)).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome, timedOut: true });
}

const queued = ({ requests }: Agent): number => Object.values(requests).flat().length;
/** Bytes that came on the connections that are used now. */
const bytesRead = ({ sockets }: Agent): number =>
  Object.values(sockets)
    .flatMap((some) => some ?? [])
    .reduce((sum, socket) => sum + socket.bytesRead, 0);

/** Accepts connections and says nothing. */
async function deafServer(): Promise<{ port: number; bytes: () => number }> {
  const sockets: Socket[] = [];
  const server = createServer((socket) => void sockets.push(socket.on("error", () => undefined).resume()));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return {
    port: (server.address() as AddressInfo).port,
    bytes: () => sockets.reduce((sum, s) => sum + s.bytesRead, 0),
  };
}

export function adapterCells(adapter: Adapter): void {
  const { name } = adapter;

  describe(`DL-27 DL-03 ${name}: a phase that hangs ends by the bound`, () => {
    it("DL-27 DL-03 DL-07 waiting for a socket: not sent", async () => {
      await withServer([answer.silent], async (server) => {
        const client = adapter.client(server.url, { maxSockets: 1 });
        const leave = new AbortController();
        const first = failure(() => client.write(leave.signal));
        await arrivals(server, 1);
        await exceeds(
          () => client.write(),
          () => queued(client.agent) === 1,
          "not-sent",
        );
        expect(server.received).toHaveLength(1);
        expect(server.connections).toHaveLength(1);
        leave.abort();
        expect(await first).toMatchObject({ outcome: "unknown" });
      });
    });

    it("DL-27 DL-03 DL-07 looking up the name: not sent", async () => {
      let asked = 0;
      const client = adapter.client("http://localhost:9", { lookup: () => void (asked += 1) });
      await exceeds(
        () => client.write(),
        () => asked === 1,
        "not-sent",
      );
    });

    it("DL-27 DL-03 DL-07 connecting: not sent", async () => {
      const client = adapter.client("http://127.0.0.1:9");
      let made = 0;
      const createConnection = (): Socket => {
        made += 1;
        // Connecting, for ever.
        return Object.defineProperty(new Socket(), "connecting", { value: true });
      };
      Object.assign(client.agent, { createConnection });
      await exceeds(
        () => client.write(),
        () => made === 1,
        "not-sent",
      );
    });

    it("DL-27 DL-03 DL-07 TLS: not sent, though the connection stands", async () => {
      const deaf = await deafServer();
      const client = adapter.client(`https://127.0.0.1:${deaf.port}`);
      await exceeds(
        () => client.write(),
        // The client's hello came; of the request, encrypted or not, nothing could.
        () => deaf.bytes() > 0,
        "not-sent",
      );
    });

    it("DL-27 DL-03 DL-11 headers: unknown, and not tried again", async () => {
      await withServer([answer.silent], async (server) => {
        const clock = new VirtualClock();
        const client = adapter.client(server.url, { clock });
        for (const [n, call] of [client.read, client.write].entries()) {
          await exceeds(
            () => call(),
            () => server.received.length > n,
            "unknown",
          );
        }
        // No pause, after which it would go again.
        expect([server.received.length, clock.pending]).toEqual([2, 0]);
      });
    });

    it("DL-27 DL-03 by the machine's own clock, too: a timer for the bound and 100 ms finds it ended", async () => {
      await withServer([adapter.written, answer.silent], async (server) => {
        const client = adapter.client(server.url);
        // Loaded and connected beforehand, which keeps the event loop.
        await client.write();
        const failed = await endsByMachine(300, () => client.write());
        expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED" });
      });
    });

    it.each([
      ["stalled", answer.stalled("half of it")],
      ["trickling", answer.trickle(40)],
    ])("DL-27 DL-03 DL-21 a body that is %s: unknown, and its socket goes", async (_name, body) => {
      await withServer([body], async (server) => {
        for (const kind of ["read", "write"] as const) {
          const client = adapter.client(server.url);
          await exceeds(
            () => client[kind](),
            () => bytesRead(client.agent) > 0,
            "unknown",
          );
        }
        for (const socket of server.connections) if (!socket.destroyed) await once(socket, "close");
      });
    });
  });

  describe(`DL-27 ${name}: attempts, outcomes, aborts`, () => {
    it("DL-27 DL-05 no attempt starts and no pause sleeps past the deadline", async () => {
      let release = (): void => undefined;
      const held: Answer = (response, request) => (release = () => answer.status(503)(response, request));
      await withServer([held], async (server) => {
        const clock = new VirtualClock();
        const client = adapter.client(server.url, { maxAttempts: 3, clock });
        const call = running(failure(() => within(450, () => client.read(), { clock })));
        await arrivals(server, 1);
        await clock.advance(250);
        release();
        await until("it pauses", () => clock.pending === 3);
        await clock.advance(100);
        await arrivals(server, 2);
        // 350 ms are gone: the second attempt has the rest.
        expect(await endsIn(clock, 100, call)).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "unknown" });
        expect([server.received.length, clock.pending]).toEqual([2, 0]);
      });
      await withServer([answer.status(503)], async (server) => {
        const clock = new VirtualClock();
        const client = adapter.client(server.url, { maxAttempts: 3, clock });
        const failed = await failure(() => within(60, () => client.read(), { clock }));
        expect(failed).toMatchObject({ code: "REQUEST_FAILED", httpStatus: 503 });
        expect(failed.message).toContain("not tried again: 60 ms left, the next pause is 100 ms");
        expect(server.received).toHaveLength(1);
      });
    });

    it("DL-27 DL-02 under 1 ms left no connection is made", async () => {
      await withServer([adapter.written], async (server) => {
        const client = adapter.client(server.url);
        const clock = new VirtualClock();
        const due = instantAfter(clock.now(), 0.9);
        expect(await failure(() => withDeadline(due, () => client.write(), { clock }))).toMatchObject({
          code: "DEADLINE_EXCEEDED",
          outcome: "not-sent",
        });
        // A connection made before would be accepted before this one's.
        await client.write();
        expect(server.connections).toHaveLength(1);
      });
    });

    it("DL-27 DL-07 DL-11 a refused connection is not sent, and goes again", async () => {
      const port = await closedPort();
      const one = await failure(() => adapter.client(`http://127.0.0.1:${port}`, { maxAttempts: 1 }).write());
      expect(one).toMatchObject({ code: "REQUEST_FAILED", outcome: "not-sent", timedOut: false });
      let asked = 0;
      await withServer([adapter.written], async (server) => {
        const lookup: LookupFunction = (host, _o, callback) => {
          asked += 1;
          if (asked === 1)
            callback(Object.assign(new Error(`getaddrinfo ENOTFOUND ${host}`), { code: "ENOTFOUND" }), "", 4);
          else callback(null, [{ address: "127.0.0.1", family: 4 }]);
        };
        const client = adapter.client(`http://localhost:${server.port}`, { lookup, maxAttempts: 2 });
        await client.write();
        expect(server.received).toHaveLength(1);
        expect(asked).toBe(2);
      });
    });

    it("DL-27 DL-07 200 cuts at places up to the end of the request: never not-sent where the server has a byte", async () => {
      let [cutAt, got] = [Infinity, 0];
      const server = createServer((socket) => {
        socket.on("error", () => undefined);
        socket.on("data", (chunk) => {
          got += chunk.length;
          if (got >= cutAt) socket.resetAndDestroy();
        });
        if (cutAt === 0) socket.resetAndDestroy();
      });
      server.listen(0, "127.0.0.1");
      await once(server, "listening");
      onTestFinished(() => void server.close());
      const client = adapter.client(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, { maxAttempts: 1 });
      // How long a request is: that of one which the server never ends.
      await endsByBound(
        () => client.write(),
        () => got > 0,
      );
      const size = got;
      let unknown = 0;
      for (let n = 0; n < 200; n++) {
        [cutAt, got] = [(n * 7_919) % size, 0];
        const failed = await failure(() => client.write());
        if (got > 0) expect(failed).toMatchObject({ outcome: "unknown" });
        if (failed.outcome === "unknown") unknown += 1;
      }
      expect(unknown).toBeGreaterThan(100);
    });

    it("DL-27 DL-11 DL-12 a broken read goes again, a broken write does not", async () => {
      await withServer([answer.reset, answer.reset, answer.reset], async (server) => {
        const client = adapter.client(server.url, { maxAttempts: 3 });
        expect(await failure(() => client.write())).toMatchObject({ outcome: "unknown" });
        expect(server.received).toHaveLength(1);
        await failure(() => client.read());
        expect(server.received).toHaveLength(4);
      });
    });

    it("DL-27 DL-23 an abort is CANCELED, before it is sent and after", async () => {
      await withServer([answer.silent], async (server) => {
        const client = adapter.client(server.url, { maxSockets: 1 });
        expect(await failure(() => client.write(AbortSignal.abort()))).toMatchObject({
          code: "CANCELED",
          outcome: "not-sent",
          timedOut: false,
        });
        expect(server.connections).toHaveLength(0);
        const [first, second] = [new AbortController(), new AbortController()];
        const sent = failure(() => client.write(first.signal));
        await arrivals(server, 1);
        const waiting = failure(() => client.write(second.signal));
        await until("it waits for the socket", () => queued(client.agent) === 1);
        second.abort();
        expect(await waiting).toMatchObject({ code: "CANCELED", outcome: "not-sent" });
        first.abort();
        expect(await sent).toMatchObject({ code: "CANCELED", outcome: "unknown" });
        expect(server.received).toHaveLength(1);
      });
    });
  });
}
