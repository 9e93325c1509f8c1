// Goal: `not-sent` is claimed when, and only when, no byte of the request arrived, wherever a connection breaks. Method:
// 1,000 inserts, each of whose attempts is refused, never connected, or cut at a random byte between the handshake and the
// end of the answer by a proxy; its log of each connection is the judge. The bound of a call passes, on the virtual clock, when the call is stuck.
import * as http from "node:http";
import * as https from "node:https";
import { connect, type Socket } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import { expect, it, onTestFinished } from "vitest";
import { systemClock } from "@holdfast/deadline-http";
import { VirtualClock } from "@holdfast/deadline-http/testing";
import { until } from "@holdfast-private/tests-machine";
import { closedPort } from "@holdfast/testkit";
import { authority, serverCertificate, serverKey } from "../support/certificates.js";
import { boundClient, type Failed } from "../support/clickhouse.js";
import { cutProxy, requestBytes, type Cut } from "../support/cut-proxy.js";
import { running } from "../support/virtual-bound.js";

const calls = 1_000;
const lanes = 20;
const boundMs = 300;
const rows = Array.from({ length: 100 }, (_, n) => ({ a: n, text: "x".repeat(50) }));

/** mulberry32: the seed stands in every failure, and gives the same cuts again. */
function prng(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** What becomes of one attempt. */
type Fate = "refused" | "unconnected" | Cut;

/** An HTTP server that accepts every insert, over TLS where asked; answers its port. */
async function server(secure: boolean): Promise<number> {
  const app = http.createServer((request, response) => {
    request.resume().on("error", () => undefined);
    request.on("end", () => response.end("x".repeat(300)));
  });
  const own = secure
    ? // 1.2: its handshake can be told from the request by the types of its records.
      createTlsServer({ key: serverKey, cert: serverCertificate, maxVersion: "TLSv1.2" }, (socket) => {
        socket.on("error", () => undefined);
        app.emit("connection", socket);
      }).on("tlsClientError", () => undefined)
    : app;
  await new Promise<void>((resolve) => own.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void own.close());
  return (own.address() as { port: number }).port;
}

interface Verdict {
  readonly fates: readonly Fate[];
  readonly outcome: string | undefined;
  readonly requestBytes: number;
}

/** One client after another: each has a proxy to itself, so its log belongs to the call that runs. */
async function lane(secure: boolean, count: number, refusing: number, random: () => number): Promise<Verdict[]> {
  let fates: Fate[] = [];
  let taken: Fate[] = [];
  const proxy = await cutProxy(await server(secure), () => {
    const fate = taken.at(-1);
    return typeof fate === "object" ? fate : null;
  });
  onTestFinished(() => proxy[Symbol.asyncDispose]());
  const http_agent = secure ? new https.Agent({ ca: authority, maxCachedSessions: 0 }) : new http.Agent();
  // Node's types leave this method out.
  const own = http_agent as unknown as { createConnection(options: object): Socket };
  const create = own.createConnection.bind(http_agent);
  own.createConnection = (options) => {
    const fate = fates[taken.length];
    if (fate !== undefined) taken.push(fate);
    if (fate === "unconnected") return connect({ port: 9, host: "never", lookup: () => undefined });
    return create({ ...options, host: "127.0.0.1", port: fate === "refused" ? refusing : proxy.port });
  };
  onTestFinished(() => http_agent.destroy());
  const url = `${secure ? "https" : "http"}://localhost:${proxy.port}`;
  const clock = new VirtualClock();
  const client = boundClient(url, { requestTimeoutMs: boundMs, maxAttempts: 2, clock }, { http_agent });
  const insert = (): Promise<unknown> => client.insert({ table: "t", values: rows, format: "JSONEachRow" });

  // Uncut and unhurried, to learn how long it all is.
  await boundClient(url, {}, { http_agent }).insert({ table: "t", values: rows, format: "JSONEachRow" });
  const whole = proxy.connections[0]!.bytes();
  const handshake = whole.length - requestBytes(whole, secure);
  const cut = (): Fate => {
    const kind = random();
    if (kind < 0.08) return "refused";
    if (kind < 0.12) return "unconnected";
    const how = (["reset", "reset", "end", "stall"] as const)[Math.floor(random() * 4)]!;
    // In the clear no connection is cut before its first byte: it was connected all the same, the client may have handed
    // its request to it, and nobody can prove that it has not.
    if (kind < 0.22) return { side: "answer", atByte: (secure ? 0 : 1) + Math.floor(random() * 400), how };
    // Half of what is cut over TLS is cut before the request.
    const [from, to] = secure && kind < 0.6 ? [0, handshake] : [Math.max(1, handshake), whole.length];
    return { side: "request", atByte: from + Math.floor(random() * (to - from + 1)), how };
  };
  const stuck = (): boolean => taken.at(-1) === "unconnected" || proxy.connections.at(-1)?.stalled() === true;
  /** Lets the bound pass where nothing else ends the call, and the pause between its attempts. */
  const outcomeOf = async (call: Promise<unknown>): Promise<string | undefined> => {
    const { end, over } = running(
      call.then(
        () => undefined,
        (error: unknown) => (error as Failed).outcome,
      ),
    );
    for (;;) {
      await until("the call ends, pauses or is stuck", () => over() || clock.pending > 1 || stuck(), 1);
      if (over()) return end;
      await clock.advance(clock.pending > 1 ? 100 : boundMs);
    }
  };
  const verdicts: Verdict[] = [];
  for (let n = 0; n < count; n++) {
    [fates, taken] = [[cut(), cut()], []];
    proxy.connections.length = 0;
    const outcome = await outcomeOf(insert());
    while (!proxy.connections.every(({ closed }) => closed())) {
      http_agent.destroy();
      await systemClock.sleep(1);
    }
    const sent = proxy.connections.reduce((sum, { bytes }) => sum + requestBytes(bytes(), secure), 0);
    verdicts.push({ fates: taken, outcome, requestBytes: sent });
  }
  return verdicts;
}

it("DL-07 1,000 random cuts, SYN to last byte: no false not-sent, no unknown of what never arrived", async () => {
  const seed = Date.now() % 2 ** 31;
  const refusing = await closedPort();
  const each = Array.from({ length: lanes }, (_, n) => lane(n % 2 === 0, calls / lanes, refusing, prng(seed + n)));
  const verdicts = (await Promise.all(each)).flat();
  expect(verdicts).toHaveLength(calls);
  const told = (list: Verdict[]): string => `seed ${seed}: ${JSON.stringify(list.slice(0, 5))}`;
  const falseNotSent = verdicts.filter(({ outcome, requestBytes: n }) => outcome === "not-sent" && n > 0);
  const falseUnknown = verdicts.filter(({ outcome, requestBytes: n }) => outcome === "unknown" && n === 0);
  const falseSuccess = verdicts.filter(({ outcome, requestBytes: n }) => outcome === undefined && n === 0);
  expect(falseNotSent, told(falseNotSent)).toEqual([]);
  expect(falseUnknown, told(falseUnknown)).toEqual([]);
  expect(falseSuccess, told(falseSuccess)).toEqual([]);
  const count = (wanted: string): number => verdicts.filter(({ outcome }) => outcome === wanted).length;
  expect([count("not-sent") > 100, count("unknown") > 300], told(verdicts)).toEqual([true, true]);
  expect(verdicts.filter(({ fates }) => fates.length > 1).length, "calls of two attempts").toBeGreaterThan(50);
});
