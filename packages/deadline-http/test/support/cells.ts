// The cells that every adapter has to pass (DL-27): each phase of a request made to hang, and what proves an outcome.
// The oracle is what a server received; the adapter under test gives no more than a read and a write.
import { once } from "node:events";
import { createServer, connect, type AddressInfo, type LookupFunction, type Socket } from "node:net";
import { Worker } from "node:worker_threads";
import { describe, expect, it, onTestFinished } from "vitest";
import { instantAfter, systemClock, within, withDeadline } from "@holdfast/deadline-http";
import { failure, type Failed } from "./clickhouse.js";
import { answer, arrivals, closedPort, withServer, type Answer } from "./scripted-server.js";

export interface ClientOptions {
  readonly maxSockets?: number;
  readonly lookup?: LookupFunction;
  readonly maxAttempts?: number;
}

export interface CellClient {
  /** A read that takes the whole body. */
  read(signal?: AbortSignal): Promise<unknown>;
  write(signal?: AbortSignal): Promise<unknown>;
}

export interface Adapter {
  readonly name: string;
  /** A bound client for this address, closed when the test is over. */
  client(url: string, o?: ClientOptions): CellClient;
  /** A good answer to the write. */
  readonly written: Answer;
}

const boundMs = 300;
const bounded = (call: () => Promise<unknown>) => failure(() => within(boundMs, call, { name: "the bound" }));
const exceeded = (failed: Failed, outcome: string): void => {
  expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome, timedOut: true });
  // The tolerance that DL-03 gives.
  expect(failed.tookMs).toBeLessThan(boundMs + 100);
};

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

/** A port whose queue of connections is full and never emptied: the next one does not come to be, nor is it refused. */
async function fullPort(): Promise<number> {
  const worker = new Worker(
    `const { parentPort } = require("node:worker_threads");
     const server = require("node:net").createServer().listen({ port: 0, host: "127.0.0.1", backlog: 1 }, () => {
       parentPort.postMessage(server.address().port);
       Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
     });`,
    { eval: true },
  );
  const [port] = (await once(worker, "message")) as [number];
  const fillers: Socket[] = [];
  onTestFinished(async () => {
    for (const socket of fillers) socket.destroy();
    await worker.terminate();
  });
  for (;;) {
    const socket = connect(port, "127.0.0.1").on("error", () => undefined);
    fillers.push(socket);
    const stood = await Promise.race([
      once(socket, "connect").then(() => true),
      systemClock.sleep(150).then(() => false),
    ]);
    if (!stood) return port;
  }
}

export function adapterCells(adapter: Adapter): void {
  const { name } = adapter;

  describe(`DL-27 DL-03 ${name}: a phase that hangs ends by the bound`, () => {
    it("DL-27 DL-03 DL-07 waiting for a socket: not sent", async () => {
      await withServer([answer.silent], async (server) => {
        const client = adapter.client(server.url, { maxSockets: 1 });
        const first = failure(() => within(2_000, () => client.write()));
        await arrivals(server, 1);
        exceeded(await bounded(() => client.write()), "not-sent");
        expect(server.received).toHaveLength(1);
        expect(server.connections).toHaveLength(1);
        expect(await first).toMatchObject({ outcome: "unknown" });
      });
    });

    it("DL-27 DL-03 DL-07 looking up the name: not sent", async () => {
      const client = adapter.client("http://localhost:9", { lookup: () => undefined });
      exceeded(await bounded(() => client.write()), "not-sent");
    });

    it("DL-27 DL-03 DL-07 connecting: not sent", async () => {
      const client = adapter.client(`http://127.0.0.1:${await fullPort()}`);
      exceeded(await bounded(() => client.write()), "not-sent");
    });

    it("DL-27 DL-03 DL-07 TLS: not sent, though the connection stands", async () => {
      const deaf = await deafServer();
      exceeded(await bounded(() => adapter.client(`https://127.0.0.1:${deaf.port}`).write()), "not-sent");
      // The client's hello came; of the request, encrypted or not, nothing could.
      expect(deaf.bytes()).toBeGreaterThan(0);
    });

    it("DL-27 DL-03 DL-11 headers: unknown, and not tried again", async () => {
      await withServer([answer.silent], async (server) => {
        const client = adapter.client(server.url);
        exceeded(await bounded(() => client.read()), "unknown");
        exceeded(await bounded(() => client.write()), "unknown");
        expect(server.received).toHaveLength(2);
      });
    });

    it.each([
      ["stalled", answer.stalled("half of it")],
      ["trickling", answer.trickle(40)],
    ])("DL-27 DL-03 DL-21 a body that is %s: unknown, and its socket goes", async (_name, body) => {
      await withServer([body], async (server) => {
        const client = adapter.client(server.url);
        exceeded(await bounded(() => client.read()), "unknown");
        exceeded(await bounded(() => client.write()), "unknown");
        for (const socket of server.connections) if (!socket.destroyed) await once(socket, "close");
      });
    });
  });

  describe(`DL-27 ${name}: attempts, outcomes, aborts`, () => {
    it("DL-27 DL-05 no attempt starts and no pause sleeps past the deadline", async () => {
      const slow: Answer = (response) => void setTimeout(() => answer.status(503)(response, undefined as never), 250);
      await withServer([slow], async (server) => {
        const failed = await failure(() => within(450, () => adapter.client(server.url, { maxAttempts: 3 }).read()));
        expect(failed.tookMs).toBeLessThan(550);
        expect(server.received.length).toBeLessThan(3);
        const from = server.received[0]!.atMs;
        for (const { atMs } of server.received) expect(atMs - from).toBeLessThan(450);
      });
      await withServer([answer.status(503)], async (server) => {
        const failed = await failure(() => within(60, () => adapter.client(server.url, { maxAttempts: 3 }).read()));
        expect(failed).toMatchObject({ code: "REQUEST_FAILED", httpStatus: 503 });
        expect(failed.message).toMatch(/not tried again: \d+ ms left/);
        expect(server.received).toHaveLength(1);
      });
    });

    it("DL-27 DL-02 under 1 ms left no connection is made", async () => {
      await withServer([adapter.written], async (server) => {
        const client = adapter.client(server.url);
        const due = instantAfter(systemClock.now(), 0.9);
        expect(await failure(() => withDeadline(due, () => client.write()))).toMatchObject({
          code: "DEADLINE_EXCEEDED",
          outcome: "not-sent",
        });
        expect(server.connections).toHaveLength(0);
      });
    });

    it("DL-27 DL-07 DL-11 a refused connection is not sent, and goes again", async () => {
      const port = await closedPort();
      const one = await bounded(() => adapter.client(`http://127.0.0.1:${port}`, { maxAttempts: 1 }).write());
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
        await within(2_000, () => client.write());
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
      // How long a request is.
      await bounded(() => client.write());
      const size = got;
      let unknown = 0;
      for (let n = 0; n < 200; n++) {
        [cutAt, got] = [(n * 7_919) % size, 0];
        const failed = await failure(() => within(2_000, () => client.write()));
        if (got > 0) expect(failed).toMatchObject({ outcome: "unknown" });
        if (failed.outcome === "unknown") unknown += 1;
      }
      expect(unknown).toBeGreaterThan(100);
    });

    it("DL-27 DL-11 DL-12 a broken read goes again, a broken write does not", async () => {
      await withServer([answer.reset, answer.reset, answer.reset], async (server) => {
        const client = adapter.client(server.url, { maxAttempts: 3 });
        expect(await failure(() => within(2_000, () => client.write()))).toMatchObject({ outcome: "unknown" });
        expect(server.received).toHaveLength(1);
        await failure(() => within(2_000, () => client.read()));
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
        const queued = failure(() => client.write(second.signal));
        second.abort();
        expect(await queued).toMatchObject({ code: "CANCELED", outcome: "not-sent" });
        first.abort();
        expect(await sent).toMatchObject({ code: "CANCELED", outcome: "unknown" });
        expect(server.received).toHaveLength(1);
      });
    });
  });
}
