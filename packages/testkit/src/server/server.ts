import { createServer, type AddressInfo, type Socket } from "node:net";
import { TLSSocket, createSecureContext } from "node:tls";
import type { AcceptFault } from "../proxy/faults.js";
import { after, nowMs, turns } from "../system-clock.js";
import { until } from "../until.js";
import { newServerConnection, ScriptedConnection, type ServerConnection } from "./connection.js";
import type { Reply } from "./reply.js";
import { Scripts, type Answer, type ReceivedRequest, type Script } from "./script.js";

/** Something the server did: a reply with an `effect` was begun. */
export interface Effect {
  readonly name: string;
  readonly request: ReceivedRequest;
  readonly atMs: number;
  /** False: the client had left by then; it happened nevertheless. */
  readonly clientPresent: boolean;
}

/** Where the server listens and what it says. */
export interface FaultServerOptions {
  /** 127.0.0.1 unless given. */
  readonly host?: string;
  /** 0 (the default): any free port. */
  readonly port?: number;
  /** Tried in order; the first that is for a request answers it. */
  readonly scripts?: readonly Script[];
  /** For what no script is for; 501 with a line that says so unless given. */
  readonly otherwise?: Answer;
  /** PEM texts: makes it an https server. */
  readonly tls?: { readonly key: string; readonly cert: string };
  /** What happens to a connection (by its number, from 1) before anything is read, the TLS handshake included. */
  readonly accept?: (connection: number) => AcceptFault | undefined;
}

/** A scripted HTTP/1.1 server. Dispose it when done: that ends every connection and timer. */
export interface FaultServer extends AsyncDisposable {
  readonly host: string;
  readonly port: number;
  /** `http://host:port`, or https. */
  readonly url: string;
  /** Every request that was answered or is to be, in order: those that came as a whole, and those of `afterBodyBytes`. */
  readonly received: readonly ReceivedRequest[];
  /** Those that no script was for. */
  readonly unmatched: readonly ReceivedRequest[];
  /** Every connection, live; a torn request shows in its bytes. */
  readonly connections: readonly ServerConnection[];
  /** What the server did, in order. */
  readonly effects: readonly Effect[];
  /** Adds a script after those there are; the answer takes it out. */
  use(script: Script): () => void;
  /** Takes all scripts out. */
  clear(): void;
  /** Resolves when what has already arrived at this machine was read: call it before you state that nothing came. */
  settled(): Promise<void>;
  /** Waits until a condition holds (five minutes unless told otherwise, then an Error). */
  until(condition: () => boolean, o?: { readonly timeoutMs?: number }): Promise<void>;
}

const nothingFor = (request: ReceivedRequest): Reply => ({
  status: 501,
  body: `No script is for ${request.method} ${request.target.slice(0, 200)}\n`,
});

/** Starts a server that answers as scripts say. Rejects as `listen` does when the port is taken. */
export async function startFaultServer(o: FaultServerOptions = {}): Promise<FaultServer> {
  const { host = "127.0.0.1", port = 0, otherwise = nothingFor } = o;
  const scripts = new Scripts();
  for (const script of o.scripts ?? []) scripts.add(script);
  const context = o.tls === undefined ? null : createSecureContext(o.tls);
  const received: ReceivedRequest[] = [];
  const unmatched: ReceivedRequest[] = [];
  const effects: Effect[] = [];
  const connections: ServerConnection[] = [];
  const served: ScriptedConnection[] = [];
  const opened: Socket[] = [];
  const timers = new Set<() => void>();

  const ask = async (request: ReceivedRequest): Promise<Reply> => {
    const answer = scripts.next(request);
    if (answer === undefined) unmatched.push(request);
    const chosen = answer ?? otherwise;
    if (typeof chosen !== "function") return chosen;
    try {
      return await chosen(request);
    } catch (error) {
      return { status: 500, body: `The script failed: ${String(error)}\n` };
    }
  };
  const serve = (socket: Socket, entry: ReturnType<typeof newServerConnection>): void => {
    const inside = context === null ? socket : new TLSSocket(socket, { isServer: true, secureContext: context });
    const connection = new ScriptedConnection(inside, entry, {
      early: (seen) => scripts.early({ ...seen, number: received.length + 1 }),
      received: (seen) => {
        const request = { ...seen, number: received.length + 1 };
        received.push(request);
        return { request, reply: ask(request) };
      },
      executed: ({ effect }, request, clientPresent) => {
        if (effect !== undefined) effects.push({ name: effect, request, atMs: nowMs(), clientPresent });
      },
    });
    served.push(connection);
    if (inside === socket) socket.resume();
  };
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true, noDelay: true }, (socket) => {
    opened.push(socket);
    socket.on("error", () => undefined);
    const entry = newServerConnection(opened.length, nowMs());
    connections.push(entry);
    const fault = o.accept?.(entry.number);
    const act = (): void => {
      if (fault?.cut === "rst") socket.resetAndDestroy();
      else if (fault?.cut === "fin") socket.end();
      else serve(socket, entry);
    };
    const afterMs = fault?.afterMs ?? 0;
    if (afterMs <= 0) act();
    else if (afterMs !== Infinity) timers.add(after(afterMs, act));
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, resolve);
  });
  const address = server.address() as AddressInfo;

  return {
    host,
    port: address.port,
    url: `${context === null ? "http" : "https"}://${host.includes(":") ? `[${host}]` : host}:${address.port}`,
    received,
    unmatched,
    effects,
    connections,
    use: (script) => scripts.add(script),
    clear: () => scripts.clear(),
    settled: () => turns(4),
    until,
    [Symbol.asyncDispose]: async () => {
      for (const cancel of timers) cancel();
      const closed = new Promise((resolve) => server.close(resolve));
      for (const connection of served) connection.destroy();
      for (const socket of opened) socket.destroy();
      await closed;
    },
  };
}
