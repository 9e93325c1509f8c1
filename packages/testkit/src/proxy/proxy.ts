import { createServer, type AddressInfo, type Socket } from "node:net";
import { after, nowMs, turns } from "../system-clock.js";
import { until } from "../until.js";
import { ProxiedConnection, type ConnectionOptions } from "./connection.js";
import type { AcceptFault, CutBy, ProxiedRequest, ProxyRule } from "./faults.js";
import { newConnection, type LoggedConnection, type LoggedRequest, type RequestEntry } from "./log.js";
import { Rules } from "./rules.js";

/** Where a proxy listens, what it stands before, and what it does. */
export interface FaultProxyOptions {
  /** The server. `host` is 127.0.0.1 unless given. */
  readonly target: { readonly host?: string; readonly port: number };
  /** Where to listen: 127.0.0.1 unless given. */
  readonly host?: string;
  /** 0 (the default): any free port. */
  readonly port?: number;
  /**
   * `http` (default): HTTP/1.1 in the clear; a connection that begins with a TLS record is handled as `raw`.
   * `raw`: bytes, not looked into; the whole connection is one request, decided on when it is accepted.
   */
  readonly mode?: "http" | "raw";
  /** Rules from the beginning; more with `use`. */
  readonly rules?: readonly ProxyRule[];
  /** How much of a body the rules see, in bytes; 1,024 unless given. 0: rules never wait for the body. */
  readonly bodyStartBytes?: number;
  /**
   * True (default): `Expect: 100-continue` is answered by the proxy and taken off the request, so that no body waits for the
   * server and a held one is here as a whole. False: it is passed on; then give `bodyStartBytes: 0`.
   */
  readonly answerContinue?: boolean;
  /** What happens to a connection (by its number, from 1) before it is served. */
  readonly accept?: (connection: number) => AcceptFault | undefined;
}

/** A TCP proxy with faults. Dispose it when done: that ends every connection and timer. */
export interface FaultProxy extends AsyncDisposable {
  readonly host: string;
  readonly port: number;
  /** `http://host:port`. */
  readonly url: string;
  /** Every connection so far, live. */
  readonly connections: readonly LoggedConnection[];
  /** Every request so far, in the order of their first bytes, live. */
  readonly requests: readonly LoggedRequest[];
  /** Adds a rule after those in force; the answer takes it out. It does not change what a request has met already. */
  use(rule: ProxyRule): () => void;
  /** Takes all rules out. */
  clear(): void;
  /** Ends the stalls and holds of requests that match (all unless given) and says of how many. */
  release(match?: (request: ProxiedRequest) => boolean): number;
  /** Serves no new connection: they are made, as in the backlog of a listener that does not accept, and wait. */
  pause(): void;
  /** Serves those that wait, and new ones. */
  resume(): void;
  /** Ends every connection now. */
  cutAll(by: CutBy): void;
  /** Resolves when what has already arrived at this machine was read and logged: call it before you state that nothing came. */
  settled(): Promise<void>;
  /** Waits until a condition holds (five minutes unless told otherwise, then an Error). */
  until(condition: () => boolean, o?: { readonly timeoutMs?: number }): Promise<void>;
}

const everything = (): boolean => true;

/** Starts a proxy before a server. Rejects as `listen` does when the port is taken. */
export async function startFaultProxy(o: FaultProxyOptions): Promise<FaultProxy> {
  const { host = "127.0.0.1", port = 0, mode = "http", bodyStartBytes = 1024, answerContinue = true } = o;
  const rules = new Rules();
  for (const rule of o.rules ?? []) rules.add(rule);
  const requests: RequestEntry[] = [];
  const target = { host: o.target.host ?? "127.0.0.1", port: o.target.port };
  const options: ConnectionOptions = { target, mode, rules, bodyStartBytes, answerContinue, requests };
  const connections: ProxiedConnection[] = [];
  const entries: LoggedConnection[] = [];
  const waiting = new Set<ProxiedConnection>();
  const timers = new Set<() => void>();
  let paused = false;

  const serve = (connection: ProxiedConnection): void => {
    if (paused) waiting.add(connection);
    else connection.open();
  };
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket: Socket) => {
    const connection = new ProxiedConnection(socket, newConnection(connections.length + 1, nowMs()), options);
    connections.push(connection);
    entries.push(connection.entry);
    const fault = o.accept?.(connections.length);
    const act = (): void => (fault?.cut === undefined ? serve(connection) : connection.cut(fault.cut));
    const afterMs = fault?.afterMs ?? 0;
    if (afterMs <= 0) {
      act();
      return;
    }
    if (afterMs !== Infinity) timers.add(after(afterMs, act));
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, resolve);
  });
  const address = server.address() as AddressInfo;

  return {
    host,
    port: address.port,
    url: `http://${host.includes(":") ? `[${host}]` : host}:${address.port}`,
    connections: entries,
    requests,
    use: (rule) => rules.add(rule),
    clear: () => rules.clear(),
    release: (match = everything) =>
      connections.reduce(
        (sum, c) => sum + c.release(({ entry }) => entry.request !== undefined && match(entry.request)),
        0,
      ),
    pause: () => {
      paused = true;
    },
    resume: () => {
      paused = false;
      for (const connection of waiting) connection.open();
      waiting.clear();
    },
    cutAll: (by) => connections.forEach((c) => c.cut(by)),
    settled: () => turns(4),
    until,
    [Symbol.asyncDispose]: async () => {
      for (const cancel of timers) cancel();
      const closed = new Promise((resolve) => server.close(resolve));
      for (const connection of connections) connection.destroy();
      await closed;
    },
  };
}
