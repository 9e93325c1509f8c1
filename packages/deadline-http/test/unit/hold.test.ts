// Goal: a request that is held writes nothing until its socket is usable, and whatever ends it leaves nothing behind.
// Method: node:http itself against loopback servers; the oracle is what the server received and what the sockets say.
import { patient } from "@holdfast-private/tests-machine";
import { AsyncLocalStorage } from "node:async_hooks";
import { getEventListeners, once } from "node:events";
import {
  Agent,
  createServer,
  request as httpRequest,
  type ClientRequest,
  type IncomingMessage,
  type RequestOptions,
} from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { connect, createServer as createTcpServer, type AddressInfo, type Socket, type Server } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import type { Permit } from "../../src/call.js";
import { endAbandoned, watchRequests, type RequestWatch } from "../../src/node-http/hold.js";

async function listening(server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}

async function httpServer(): Promise<{ port: number; urls: string[] }> {
  const urls: string[] = [];
  const server = createServer((request, response) => {
    urls.push(request.url ?? "");
    request.resume().on("end", () => response.end("answer"));
  });
  onTestFinished(() => server.closeAllConnections());
  return { port: await listening(patient(server)), urls };
}

/** Takes connections and bytes, answers nothing. */
async function deafServer(): Promise<{ port: number; sockets: Socket[] }> {
  const sockets: Socket[] = [];
  const server = createTcpServer((socket) => void sockets.push(socket.on("error", () => undefined).resume()));
  onTestFinished(() => sockets.forEach((socket) => void socket.destroy()));
  return { port: await listening(server), sockets };
}

const agentOf = (agent: Agent = new Agent({ keepAlive: true })): Agent => {
  onTestFinished(() => agent.destroy());
  return agent;
};

interface Watched {
  readonly request: ClientRequest;
  readonly controller: AbortController;
  /** How often a socket was found usable. */
  readonly met: { connected: number };
}

function watched(o: RequestOptions, watch: Partial<RequestWatch> = {}, make = httpRequest): Watched {
  const controller = new AbortController();
  const met = { connected: 0 };
  const request = watchRequests(
    {
      signal: controller.signal,
      concerns: () => true,
      onConnected: () => {
        met.connected += 1;
        return true;
      },
      permit: () => "go-on",
      ...watch,
    },
    () => make({ host: "127.0.0.1", ...o }),
  );
  return { request, controller, met };
}

async function answerOf(request: ClientRequest): Promise<string> {
  request.end();
  const [response] = (await once(request, "response")) as [AsyncIterable<Buffer>];
  let text = "";
  for await (const chunk of response) text += chunk.toString();
  return text;
}

const errorOf = async (request: ClientRequest): Promise<Error> => ((await once(request, "error")) as [Error])[0];

/** A socket that stays "connecting": its name is never found. */
const nameless = (made: Socket[]): Agent => {
  class Nameless extends Agent {
    createConnection(options: object): Socket {
      const socket = connect({ ...options, host: "nowhere.invalid", lookup: () => undefined } as never);
      made.push(socket);
      return socket;
    }
  }
  return agentOf(new Nameless({ keepAlive: true }));
};

const sockets = (agent: Agent): { used: number; free: number } => ({
  used: Object.values(agent.sockets).flat().length,
  free: Object.values(agent.freeSockets).flat().length,
});

describe("a held request", () => {
  it("DL-07 is told of once per request, on a new connection and on a kept one, before anything is written", async () => {
    const { port, urls } = await httpServer();
    const agent = agentOf();
    for (const path of ["/new", "/kept"]) {
      const { request, met } = watched({ port, path, agent }, {});
      expect(await answerOf(request)).toBe("answer");
      expect(met.connected).toBe(1);
    }
    expect(urls).toEqual(["/new", "/kept"]);
    expect(sockets(agent)).toEqual({ used: 0, free: 1 });
  });

  it("DL-07 that the watch does not let out writes nothing, and its connection serves the next one", async () => {
    const { port, urls } = await httpServer();
    const agent = agentOf();
    expect(await answerOf(watched({ port, path: "/first", agent }).request)).toBe("answer");
    for (const path of ["/kept", "/kept-too"]) {
      const { request } = watched({ port, path, agent }, { onConnected: () => false });
      request.end("body");
      expect((await errorOf(request)).message).toContain("ended before its request was sent");
    }
    expect(await answerOf(watched({ port, path: "/last", agent }).request)).toBe("answer");
    expect(urls).toEqual(["/first", "/last"]);
  });

  it("DL-03 writes under its permit alone: one that nobody watches has the connection after it to itself", async () => {
    const { port, urls } = await httpServer();
    const agent = agentOf();
    let permit: Permit = "go-on";
    const bound = watched({ port, path: "/bound", method: "PUT", agent }, { permit: () => permit });
    expect(await answerOf(bound.request)).toBe("answer");
    permit = "cut";
    expect(await answerOf(httpRequest({ host: "127.0.0.1", port, path: "/free", agent }))).toBe("answer");
    const late = watched({ port, path: "/late", method: "PUT", agent }, { permit: () => permit });
    late.request.end("body");
    expect(await errorOf(late.request)).toMatchObject({ code: "ECONNRESET" });
    expect(urls).toEqual(["/bound", "/free"]);
  });

  it.each([
    ["that its client stopped writing leaves no connection behind", false, { used: 0, free: 0 }],
    ["that its client ended keeps its connection until it is written", true, { used: 1, free: 0 }],
  ])("DL-03 answered before it was whole, one %s", async (_, ended, left) => {
    const server = createTcpServer((socket) => {
      onTestFinished(() => void socket.destroy());
      socket.on("error", () => undefined);
      socket.once("data", () => {
        socket.pause();
        socket.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
      });
    });
    const agent = agentOf();
    const { request } = watched({ port: await listening(server), method: "PUT", agent });
    // More than the kernel takes.
    request.write(Buffer.alloc(20_000_000));
    if (ended) request.end();
    const [response] = (await once(request, "response")) as [IncomingMessage];
    endAbandoned(request, response);
    response.resume();
    await once(response, "close");
    for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
    expect(sockets(agent)).toEqual(left);
  });

  it("DL-07 of a refused connection fails with Node's error, never told of", async () => {
    const server = createTcpServer();
    const port = await listening(server);
    server.close();
    const { request, met } = watched({ port, agent: agentOf() });
    request.end("body");
    expect(await errorOf(request)).toMatchObject({ code: "ECONNREFUSED" });
    expect(met.connected).toBe(0);
  });

  it("DL-07 is held through TLS: a handshake that fails or hangs is never told of", async () => {
    const agent = agentOf(new HttpsAgent({ keepAlive: true }));
    const noTls = await httpServer();
    const failing = watched({ port: noTls.port, agent }, {}, httpsRequest);
    failing.request.end("body");
    expect(await errorOf(failing.request)).toMatchObject({ code: expect.stringMatching(/EPROTO|SSL/) as string });
    expect(failing.met.connected).toBe(0);
    expect(noTls.urls).toEqual([]);

    const deaf = await deafServer();
    const hanging = watched({ port: deaf.port, agent }, {}, httpsRequest);
    hanging.request.end("body");
    while (deaf.sockets[0]?.bytesRead === undefined || deaf.sockets[0].bytesRead === 0) await turn();
    const failed = errorOf(hanging.request);
    hanging.request.destroy();
    await failed;
    if (!deaf.sockets[0].destroyed) await once(deaf.sockets[0], "close");
    expect(hanging.met.connected).toBe(0);
    expect(sockets(agent)).toEqual({ used: 0, free: 0 });
  });

  it.each(["signal", "destroy"])("that is ended by %s while connecting takes the connection with it", async (by) => {
    const made: Socket[] = [];
    const agent = nameless(made);
    const { request, controller, met } = watched({ port: 9, agent });
    request.end("body");
    while (made.length === 0) await turn();
    const socket = made[0]!;
    const failed = errorOf(request);
    if (by === "signal") controller.abort();
    else request.destroy();
    await failed;
    // The agent forgets it when it has closed.
    while (sockets(agent).used > 0) await turn();
    expect(met.connected).toBe(0);
    expect(socket.destroyed).toBe(true);
    for (const event of ["connect", "secureConnect"]) expect(socket.listenerCount(event)).toBe(0);
    expect(getEventListeners(controller.signal, "abort")).toHaveLength(0);
  });

  it("leaves no listener on a socket and a signal that it went out on", async () => {
    const { port } = await httpServer();
    const agent = agentOf(new Agent({ keepAlive: true, maxSockets: 1 }));
    const counts: number[][] = [];
    const { signal } = new AbortController();
    for (let n = 0; n < 20; n++) {
      const { request } = watched({ port, agent }, { signal });
      let socket: Socket | undefined;
      request.once("socket", (given) => (socket = given));
      await answerOf(request);
      await turn();
      counts.push(["error", "close", "connect"].map((event) => socket!.listenerCount(event)));
    }
    expect(new Set(counts.map(String)).size).toBe(1);
    expect(getEventListeners(signal, "abort")).toHaveLength(0);
  });

  it("that was destroyed in the queue gives the socket back unused when its turn comes", async () => {
    const { port, urls } = await httpServer();
    const agent = agentOf(new Agent({ keepAlive: true, maxSockets: 1 }));
    const first = watched({ port, path: "/first", agent });
    const second = watched({ port, path: "/second", agent });
    const third = watched({ port, path: "/third", agent });
    second.request.end("body");
    const failed = errorOf(second.request);
    second.request.destroy();
    expect(await Promise.all([answerOf(first.request), answerOf(third.request)])).toEqual(["answer", "answer"]);
    await failed;
    expect(second.met.connected).toBe(0);
    expect(urls).toEqual(["/first", "/third"]);
  });

  it("DL-07 through an agent that makes its connections asynchronously is held all the same", async () => {
    const { port, urls } = await httpServer();
    // As agents for proxies do: the socket comes later, connected or not.
    class Slow extends Agent {
      createSocket(
        _request: ClientRequest,
        options: { port: number },
        callback: (e: Error | null, s?: Socket) => void,
      ) {
        const socket = connect({ port: options.port, host: "127.0.0.1" });
        void once(socket, "connect").then(() => callback(null, socket));
      }
    }
    const out = watched({ port, path: "/out", agent: agentOf(new Slow()) });
    expect(await answerOf(out.request)).toBe("answer");
    expect(out.met.connected).toBe(1);
    const kept = watched({ port, path: "/in", agent: agentOf(new Slow()) }, { onConnected: () => false });
    kept.request.end();
    await errorOf(kept.request);
    expect(urls).toEqual(["/out"]);
  });

  it("DL-07 with Expect: 100-continue does not even send its headers", async () => {
    const { port, urls } = await httpServer();
    const headers = { expect: "100-continue", "content-length": "4" };
    const kept = watched({ port, method: "PUT", headers, agent: agentOf() }, { onConnected: () => false });
    await errorOf(kept.request);
    const out = watched({ port, path: "/out", method: "PUT", headers, agent: agentOf() });
    out.request.once("continue", () => out.request.end("body"));
    await once(out.request, "response");
    expect(urls).toEqual(["/out"]);
  });

  it("a connection that closes as it is handed over fails as not sent", async () => {
    const { port } = await httpServer();
    class Closed extends Agent {
      createConnection(): Socket {
        return connect({ port, host: "127.0.0.1" }).destroy();
      }
    }
    const { request, met } = watched({ port, agent: agentOf(new Closed()) });
    request.end("body");
    expect(await errorOf(request)).toMatchObject({ code: "ECONNRESET" });
    expect(met.connected).toBe(0);
  });
});

describe("other requests", () => {
  it("outside a watch, and such as do not concern it, keep their own onSocket and destroy", async () => {
    const { port } = await httpServer();
    const agent = agentOf();
    const apart = watched({ port, agent }, { concerns: () => false });
    const outside = httpRequest({ port, host: "127.0.0.1", agent });
    for (const request of [apart.request, outside]) {
      expect(Object.hasOwn(request, "onSocket")).toBe(false);
      expect(await answerOf(request)).toBe("answer");
      expect(Object.hasOwn(request, "destroy")).toBe(false);
    }
    expect(apart.met.connected).toBe(0);
  });

  it("of two watches at once each is told of its own, queued ones included", async () => {
    const { port } = await httpServer();
    const agent = agentOf(new Agent({ keepAlive: true, maxSockets: 1 }));
    const caller = new AsyncLocalStorage<number>();
    const all = Array.from({ length: 5 }, (_, n) => caller.run(n, () => watched({ port, agent })));
    await Promise.all(all.map(({ request }) => answerOf(request)));
    expect(all.map(({ met }) => met.connected)).toEqual([1, 1, 1, 1, 1]);
  });
});

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
