// Goal: the store of examples/custom-store keeps what docs/backends.md asks of a store, on a good wire and on a bad one. Method: the suite, as the
// page says to run it; between the store and its service stands a server that does to HTTP what the suite asks for.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { objectStoreConformance, type Fault, type FaultInjector, type FaultKind } from "@holdfast/testkit/conformance";
import { describe, it } from "vitest";
import { httpStore } from "../../examples/custom-store/http-store.mjs";
import { startServer } from "../../examples/custom-store/server.mjs";

type Exchange = { method: string; url: URL; headers: Record<string, string>; body: Buffer };
type Answer = { status: number; headers: Record<string, string>; body: Buffer; end?: "stall" | "cut" | "reset" };
type Send = (request: Exchange) => Promise<Answer>;
type Strike = (send: Send, request: Exchange) => Promise<Answer>;

const says =
  (status: number): Strike =>
  () =>
    Promise.resolve({ status, headers: {}, body: Buffer.alloc(0) });
const lost: Answer = { status: 0, headers: {}, body: Buffer.alloc(0), end: "reset" };
const changed =
  (change: (answer: Answer) => Partial<Answer>): Strike =>
  async (send, request) => {
    const answer = await send(request);
    return answer.status < 300 ? { ...answer, ...change(answer) } : answer;
  };
const without = (headers: Record<string, string>, ...names: string[]): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !names.includes(name)));
type Entry = { key: string; size: number; etag: string; modifiedAtMs: number };
const entries = (change: (page: Entry[]) => Entry[]): Strike =>
  changed(({ body }) => ({ body: Buffer.from(JSON.stringify(change(JSON.parse(body.toString()) as Entry[]))) }));
const query =
  (change: (query: URLSearchParams) => void): Strike =>
  (send, request) => {
    const url = new URL(request.url);
    change(url.searchParams);
    return send({ ...request, url });
  };

const strikes: Partial<Record<FaultKind, Strike>> = {
  "request-lost": () => Promise.resolve(lost),
  "answer-lost": async (send, request) => (await send(request), lost),
  stalled: async (send, request) => ({ ...(await send(request)), status: 0, end: "stall" }),
  "body-stalled": changed(() => ({ end: "stall" })),
  "body-cut": changed(() => ({ end: "cut" })),
  throttled: says(503),
  conflict: says(409),
  missing: says(404),
  precondition: says(412),
  forbidden: says(403),
  "bad-digest": says(400),
  "error-after": async (send, request) => ({ ...(await send(request)), status: 500 }),
  "condition-ignored": (send, request) =>
    send({ ...request, headers: without(request.headers, "if-match", "if-none-match") }),
  "etag-missing": changed(({ headers }) => ({ headers: without(headers, "etag") })),
  truncated: changed(({ body }) => ({ body: body.subarray(0, -1) })),
  oversized: changed(({ body }) => ({ body: Buffer.concat([body, Buffer.from("!")]) })),
  shifted: (send, request) => {
    const shift = (range: string) => range.replace(/\d+/g, (n) => String(Number(n) + 1));
    const { range } = request.headers;
    return send({
      ...request,
      headers: { ...request.headers, ...(range === undefined ? {} : { range: shift(range) }) },
    });
  },
  "range-ignored": (send, request) => send({ ...request, headers: without(request.headers, "range") }),
  "size-missing": changed(({ headers }) => ({ headers: without(headers, "x-size") })),
  "error-in-200": () => Promise.resolve({ status: 200, headers: {}, body: Buffer.from("<error/>") }),
  "page-repeats": query((q) => q.set("after", "")),
  "page-drifts": entries((page) => page.toReversed()),
  "page-foreign": entries((page) => [...page, { key: "zzz/foreign", size: 1, etag: "f", modifiedAtMs: 0 }]),
  "page-long": query((q) => q.set("limit", String(Number(q.get("limit")) + 2))),
  "token-refused": says(400),
};

function operationOf({ method = "", url = "" }: IncomingMessage): Fault["on"] {
  if (url.startsWith("/list")) return "list";
  return ({ PUT: "put", HEAD: "head", DELETE: "delete" } as const)[method] ?? "get";
}

/** A server before the service, and what breaks it. */
async function faultyFront(service: string): Promise<{ url: string; faults: FaultInjector; close(): void }> {
  type Rule = Fault & { left: number; skip: number; strikes: number; struck(): void };
  const rules: Rule[] = [];
  const send: Send = async ({ method, url, headers, body }) => {
    const more = method === "PUT" ? { body: new Uint8Array(body) } : {};
    const response = await fetch(new URL(url.pathname + url.search, service), { method, headers, ...more });
    const own = Object.fromEntries([...response.headers].filter(([name]) => /^(?:etag|x-|content-range)/.test(name)));
    return { status: response.status, headers: own, body: Buffer.from(await response.arrayBuffer()) };
  };
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const headers = Object.fromEntries(
        Object.entries(request.headers).filter(([name]) => /^(?:if-|x-|range)/.test(name)),
      ) as Record<string, string>;
      const url = new URL(request.url ?? "", service);
      // The cases about pages want pages of three.
      const limit = url.searchParams.get("limit");
      if (limit !== null) url.searchParams.set("limit", String(Math.min(Number(limit), 3)));
      const exchange = { method: request.method ?? "", url, headers, body: Buffer.concat(chunks) };
      const fits = rules.filter((one) => one.on === operationOf(request) && one.left > 0);
      const due = fits.find((one) => one.skip === 0);
      for (const one of fits) if (one.skip > 0) one.skip--;
      if (due !== undefined) due.left--;
      const strike = due === undefined ? undefined : strikes[due.kind];
      void (strike === undefined ? send(exchange) : strike(send, exchange)).then((done) => {
        answer(response, done);
        if (due === undefined) return;
        due.strikes++;
        due.struck();
      });
    });
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const inject: FaultInjector["inject"] = (fault) => {
    let struck = (): void => undefined;
    const first = new Promise<void>((done) => (struck = done));
    const rule = { ...fault, left: fault.times ?? 1, skip: fault.after ?? 0, strikes: 0, struck: () => struck() };
    rules.push(rule);
    return { struck: first, count: () => rule.strikes, release: () => Promise.resolve() };
  };
  const close = () => {
    server.close();
    server.closeAllConnections();
  };
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port.toString()}`,
    faults: { kinds: new Set(Object.keys(strikes) as FaultKind[]), inject },
    close,
  };
}

function answer(response: ServerResponse, { status, headers, body, end }: Answer): void {
  if (end === "reset") response.destroy();
  if (status === 0 || end === "reset") return;
  response.writeHead(status, { ...headers, "content-length": body.length });
  if (end === undefined) response.end(body);
  else response.write(body.subarray(0, body.length >> 1), () => (end === "cut" ? response.destroy() : undefined));
}

/** How long a call may take to end after its abort: this ends a hang, not a wait for a busy machine. */
const patienceMs = 300_000;

describe("examples/custom-store", () => {
  const open = async () => {
    const service = await startServer();
    const front = await faultyFront(service.url);
    return {
      store: httpStore({ url: front.url, storeId: "my-service" }),
      other: httpStore({ url: service.url, storeId: "my-service" }),
      faults: front.faults,
      async dispose() {
        front.close();
        await service.close();
      },
    };
  };
  // A thousand puts, and as many objects in pages of three.
  const slow = (name: string) => (name.startsWith("OS-182 ") ? { tags: ["slow"] } : {});
  const runner = { describe, it: (name: string, body: () => Promise<void>) => it(name, slow(name), body) };
  objectStoreConformance(runner, open, { patienceMs });
});
