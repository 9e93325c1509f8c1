// A server on loopback in front of one that speaks the JSON API: it passes on what it is asked, and breaks what the conformance suite asks it
// to break.
import { Agent, createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Fault, FaultInjector, Operation } from "@holdfast/testkit/conformance";
import {
  realToken,
  reset,
  strikes,
  without,
  type Answer,
  type Exchange,
  type Playable,
  type Send,
} from "./gcs-strikes.js";

type Rule = Fault & { left: number; skip: number; strikes: number; struck(): void; release: () => Promise<void> };

type FaultyFront = {
  readonly url: string;
  readonly faults: FaultInjector;
  /** Ends every connection; resolves when nothing that was passed on is with the server any more. */
  close(): Promise<void>;
};

/** The cases about pages list eight objects. */
const pageKeys = 3;

/** A front for one case. `url` is where the server is, over http. */
export async function faultyFront(url: string): Promise<FaultyFront> {
  const rules: Rule[] = [];
  const underWay = new Set<Promise<unknown>>();
  const agent = new Agent({ keepAlive: true });
  const send: Send = (wanted) => {
    const work = passOn(url, agent, wanted);
    underWay.add(work);
    void work.catch(() => undefined).finally(() => underWay.delete(work));
    return work;
  };
  const server = createServer((request, response) => {
    void exchangeOf(request).then(async (came) => {
      // The client has gone before the end of its request, so that the server never hears of it.
      if (came === null) return;
      const asked = asExpected(came, rules);
      const strike = (rule: Rule, by: Send): Promise<Answer> =>
        strikes[rule.kind as Playable](by, asked, (late) => (rule.release = late));
      const on = operationOf(came);
      let rule = due(rules, on, isBegin(came));
      let work = rule === undefined ? send(asked) : strike(rule, send);
      if (rule === undefined && isBegin(came)) {
        // A session that is refused at its beginning has no last bytes, so that the fault strikes at the refusal.
        const refused = await work;
        if (refused.status >= 400) rule = due(rules, on);
        if (rule !== undefined) work = strike(rule, () => Promise.resolve(refused));
      }
      // A server that cannot be reached is a connection that ends, also for the client.
      give(response, await work.catch((): Answer => reset));
      rule?.struck();
    });
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    faults: { kinds: new Set(Object.keys(strikes) as Playable[]), inject: (fault) => inject(rules, fault) },
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

/** What is decided when a session begins, or about the name of its object. */
const atBegin = new Set<string>(["missing", "condition-ignored"]);
const isBegin = ({ path, query }: Exchange): boolean =>
  path.startsWith("/upload/") && query.get("uploadType") === "resumable" && !query.has("upload_id");

/** The rule that strikes at this request, if any; those that still let requests pass have let one more pass. */
function due(rules: readonly Rule[], on: Operation | null, begins?: boolean): Rule | undefined {
  const fits = rules.filter((rule) => rule.on === on && rule.left > 0 && (begins !== true || atBegin.has(rule.kind)));
  const rule = fits.find(({ skip }) => skip === 0);
  for (const one of fits) if (one.skip > 0) one.skip--;
  if (rule === undefined) return undefined;
  rule.left--;
  rule.strikes++;
  return rule;
}

/** What a request is of. Of an upload session those are a put that begin it and that bring its last bytes. */
function operationOf({ method, path, query, headers }: Exchange): Operation | null {
  if (query.has("upload_id")) {
    const [, last, size] = /^bytes \d+-(\d+)\/(\d+)$/.exec(headers["content-range"] ?? "") ?? [];
    return method === "PUT" && last !== undefined && Number(last) + 1 === Number(size) ? "put" : null;
  }
  if (path.startsWith("/upload/")) return "put";
  if (method === "DELETE") return "delete";
  if (path.endsWith("/o")) return "list";
  return query.get("alt") === "media" ? "get" : "head";
}

/** While listings are to be broken they come in small pages, and a token of the front's making is the server's own again. */
function asExpected(came: Exchange, rules: readonly Rule[]): Exchange {
  if (operationOf(came) !== "list" || !rules.some(({ on }) => on === "list")) return came;
  const query = new URLSearchParams(came.query);
  query.set("maxResults", String(Math.min(pageKeys, Number(query.get("maxResults") ?? pageKeys))));
  const token = query.get("pageToken");
  if (token !== null) query.set("pageToken", realToken(token));
  return { ...came, query };
}

/** A request with its whole body; null when the client has gone before its end. */
async function exchangeOf(request: IncomingMessage): Promise<Exchange | null> {
  const { method = "", url = "" } = request;
  try {
    const body = await wholeOf(request);
    const at = url.indexOf("?");
    const [path, query] = at < 0 ? [url, ""] : [url.slice(0, at), url.slice(at + 1)];
    return {
      method,
      path,
      query: new URLSearchParams(query),
      headers: request.headers as Record<string, string>,
      body,
    };
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
  // Chunks have been put together.
  const own = { ...without(headers, "transfer-encoding"), "content-length": String(body.length) };
  const target = query.size === 0 ? path : `${path}?${query.toString()}`;
  return new Promise((resolve, reject) => {
    const sent = httpRequest({ agent, hostname, port, method, path: target, headers: own }, (message) => {
      const kept = without(message.headers as Record<string, string>, "connection", "keep-alive", "transfer-encoding");
      wholeOf(message).then(
        (whole) => resolve({ status: message.statusCode ?? 0, headers: kept, body: whole }),
        reject,
      );
    });
    sent.on("error", reject).end(body);
  });
}

function give(response: ServerResponse, { status, headers, body, end }: Answer): void {
  if (end === "never") return;
  if (end === "reset") return void response.socket?.resetAndDestroy();
  response.writeHead(status, headers);
  if (end === undefined) return void response.end(body);
  response.write(body.subarray(0, body.length >> 1), () =>
    end === "cut" ? response.socket?.resetAndDestroy() : undefined,
  );
}
