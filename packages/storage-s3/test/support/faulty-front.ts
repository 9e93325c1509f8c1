// A server on loopback in front of a real S3 server: it passes on what it is asked, and breaks what the conformance suite asks it to break.
// A request goes on as it came, under the client's own signature, unless a fault has changed it; then the front signs it anew.
import { patient } from "@holdfast-private/tests-machine";
import { Agent, createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Fault, FaultInjector, FaultKind, Operation } from "@holdfast/testkit/conformance";
import { resigned, spelled, type Exchange } from "./resign.js";
import { realToken, strikes, without, type Answer, type Send } from "./s3-strikes.js";

type Rule = Fault & { left: number; skip: number; strikes: number; struck(): void; release: () => Promise<void> };

type FaultyFront = {
  readonly url: string;
  readonly faults: FaultInjector;
  /** Ends every connection; resolves when nothing that was passed on is with the server any more. */
  close(): Promise<void>;
};

/** The cases about pages list eight objects. */
const pageKeys = 3;

/** A front for one case. `url` is where the real server is, over http; `secretAccessKey` is the one of the client that comes. */
export async function faultyFront(url: string, secretAccessKey: string): Promise<FaultyFront> {
  const rules: Rule[] = [];
  const underWay = new Set<Promise<unknown>>();
  const agent = new Agent({ keepAlive: true });
  const server = createServer((request, response) => {
    void exchangeOf(request).then(async (came) => {
      if (came === null) return;
      const asked = asExpected(came, rules);
      const send: Send = (wanted) => {
        const work = passOn(url, agent, wanted === came ? wanted : resigned(wanted, secretAccessKey));
        underWay.add(work);
        void work.catch(() => undefined).finally(() => underWay.delete(work));
        return work;
      };
      const rule = due(rules, operationOf(came));
      const work = rule === undefined ? send(asked) : strikes[rule.kind](send, asked, (late) => (rule.release = late));
      // A server that cannot be reached is a connection that ends, also for the client.
      give(response, await work.catch((): Answer => ({ status: 0, headers: {}, body: came.body, end: "reset" })));
      rule?.struck();
    });
  });
  patient(server);
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    faults: { kinds: new Set(Object.keys(strikes) as FaultKind[]), inject: (fault) => inject(rules, fault) },
    async close() {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
      await Promise.allSettled(underWay);
      agent.destroy();
    },
  };
}

function inject(rules: Rule[], fault: Fault): ReturnType<FaultInjector["inject"]> {
  let struck = (): void => undefined;
  const first = new Promise<void>((done) => (struck = done));
  const rule: Rule = {
    ...fault,
    left: fault.times ?? 1,
    skip: fault.after ?? 0,
    strikes: 0,
    struck: () => struck(),
    release: () => Promise.resolve(),
  };
  rules.push(rule);
  return { struck: first, count: () => rule.strikes, release: () => rule.release() };
}

/** The rule that strikes at this request, if any; those that still let requests pass have let one more pass. */
function due(rules: readonly Rule[], on: Operation | null): Rule | undefined {
  const fits = rules.filter((rule) => rule.on === on && rule.left > 0);
  const rule = fits.find(({ skip }) => skip === 0);
  for (const one of fits) if (one.skip > 0) one.skip--;
  if (rule === undefined) return undefined;
  rule.left--;
  rule.strikes++;
  return rule;
}

/** What a request is of; the requests of an upload in parts are of nothing that can be broken here. */
function operationOf({ method, query }: Exchange): Operation | null {
  if (/(?:^|&)(?:uploads|uploadId|partNumber)=/.test(query)) return null;
  if (/(?:^|&)list-type=2/.test(query)) return "list";
  const operations: Readonly<Record<string, Operation>> = { PUT: "put", GET: "get", HEAD: "head", DELETE: "delete" };
  return operations[method] ?? null;
}

/** While listings are to be broken they come in small pages, and a token of the front's making is the server's own again. */
function asExpected(came: Exchange, rules: readonly Rule[]): Exchange {
  if (operationOf(came) !== "list" || !rules.some(({ on }) => on === "list")) return came;
  const query = new URLSearchParams(came.query);
  query.set("max-keys", String(Math.min(pageKeys, Number(query.get("max-keys") ?? pageKeys))));
  const token = query.get("continuation-token");
  if (token !== null) query.set("continuation-token", realToken(token));
  return { ...came, query: spelled(query) };
}

/** A request with its whole body; `null` when the client has gone before its end, so that the server never hears of it. */
async function exchangeOf(request: IncomingMessage): Promise<Exchange | null> {
  const { method = "", url = "" } = request;
  try {
    const body = await wholeOf(request);
    // Not as a URL, which would make another key of "a/../b".
    const at = url.indexOf("?");
    const [path, query] = at < 0 ? [url, ""] : [url.slice(0, at), url.slice(at + 1)];
    return { method, path, query, headers: request.headers as Record<string, string>, body };
  } catch {
    return null;
  }
}

async function wholeOf(message: IncomingMessage): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of message as AsyncIterable<Buffer>) pieces.push(piece);
  return Buffer.concat(pieces);
}

function passOn(url: string, agent: Agent, { method, path, query, headers, body }: Exchange): Promise<Answer> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    // The client's own Host stays: it is in the signature.
    const target = query === "" ? path : `${path}?${query}`;
    const sent = httpRequest({ agent, hostname, port, method, path: target, headers }, (message) => {
      const own = without(message.headers as Record<string, string>, "connection", "keep-alive", "transfer-encoding");
      wholeOf(message).then((whole) => resolve({ status: message.statusCode ?? 0, headers: own, body: whole }), reject);
    });
    sent.on("error", reject).end(body);
  });
}

function give(response: ServerResponse, { status, headers, body, end }: Answer): void {
  if (end === "never") return;
  const { socket, req } = response;
  if (end === "reset") return void socket?.resetAndDestroy();
  const head = req.method === "HEAD";
  const broken = end !== undefined && !head;
  // A page that was changed is declared anew; what lies about its length, or tells none, stays so.
  const declared = !broken && !head && headers["content-length"] !== undefined;
  response.writeHead(status, declared ? { ...headers, "content-length": String(body.length) } : headers);
  if (!broken) return void response.end(head ? undefined : body);
  if (end === "short") return void response.write(body, () => socket?.end());
  response.write(body.subarray(0, body.length >> 1), () => (end === "cut" ? socket?.resetAndDestroy() : undefined));
}
