import { patient } from "@holdfast-private/tests-machine";
import { createServer, request, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Barrier } from "./barrier.js";

/** A request as the proxy saw it: the statement, wherever it stood, and when it came and was answered. */
export type Seen = { readonly text: string; readonly atMs: number; answeredAtMs: number | null; status: number | null };

/**
 * What happens to a request. `fail` and `answer` answer an error without asking the server; `stall` never answers and asks nobody; a
 * barrier holds the request and sends it on when it is opened; `late` sends it on once its client has given up.
 */
export type Action =
  "fail" | "stall" | "late" | Barrier | { readonly answer: number; readonly code: number; readonly name: string };
type Rule = { readonly match: (text: string) => boolean; readonly action: Action; left: number };
type Options = {
  /** Whose time the log is in. Default: `performance`. */
  readonly clock?: { now(): number };
};

/** Between a service and ClickHouse: sees every statement, and does to some of them what networks do. */
export class Proxy {
  readonly log: Seen[] = [];
  #rules: Rule[] = [];
  readonly #server: Server;
  readonly #stalled = new Set<ServerResponse>();
  #underWay = 0;
  readonly #clock: { now(): number };

  private constructor(
    private readonly upstream: string,
    { clock = performance }: Options,
  ) {
    this.#clock = clock;
    this.#server = patient(createServer((incoming, outgoing) => this.#take(incoming, outgoing)));
  }

  static async open(upstream: string, o: Options = {}): Promise<Proxy> {
    const proxy = new Proxy(upstream, o);
    await new Promise<void>((resolve) => proxy.#server.listen(0, "127.0.0.1", resolve));
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** How many requests are stalled whose client still waits. */
  get stalled(): number {
    return this.#stalled.size;
  }
  /** How many requests have a client that waits, stalled ones included. */
  get underWay(): number {
    return this.#underWay;
  }

  /** Applies `action` to the next `times` requests whose statement matches. */
  on(match: RegExp, action: Action, times = Infinity): void {
    this.#rules.push({ match: (text) => match.test(text), action, left: times });
  }
  /** Lets everything through again. What is stalled gets no answer any more: its connection is reset. */
  clear(): void {
    this.#rules = [];
    for (const outgoing of this.#stalled) outgoing.destroy();
  }
  seen(match: RegExp): Seen[] {
    return this.log.filter(({ text }) => match.test(text));
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #take(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const parts: Buffer[] = [];
    this.#underWay += 1;
    outgoing.once("close", () => (this.#underWay -= 1));
    incoming.on("data", (part: Buffer) => parts.push(part));
    incoming.on("error", () => outgoing.destroy());
    incoming.on("end", () => {
      const body = Buffer.concat(parts);
      const query = new URL(incoming.url ?? "/", "http://x").searchParams.get("query") ?? "";
      const seen: Seen = {
        text: `${query} ${body.toString()}`,
        atMs: this.#clock.now(),
        answeredAtMs: null,
        status: null,
      };
      this.log.push(seen);
      const rule = this.#rules.find(({ match, left }) => left > 0 && match(seen.text));
      if (rule !== undefined) rule.left -= 1;
      this.#act(rule?.action ?? null, incoming, body, outgoing, seen);
    });
  }

  #act(action: Action | null, incoming: IncomingMessage, body: Buffer, outgoing: ServerResponse, seen: Seen): void {
    if (action === "stall") {
      this.#stalled.add(outgoing);
      outgoing.once("close", () => this.#stalled.delete(outgoing));
    } else if (action === "late") {
      outgoing.once("close", () => this.#forward(incoming, body, outgoing, seen));
    } else if (action instanceof Barrier) {
      void action.pass().then(() => this.#forward(incoming, body, outgoing, seen));
    } else if (action === null) {
      this.#forward(incoming, body, outgoing, seen);
    } else {
      const { answer, code, name } =
        action === "fail" ? { answer: 500, code: 1002, name: "UNKNOWN_EXCEPTION" } : action;
      outgoing.writeHead(answer, { "content-type": "text/plain", "x-clickhouse-exception-code": String(code) });
      outgoing.end(`Code: ${code}. DB::Exception: made to fail. (${name})\n`);
    }
  }

  /** The server is asked also when the client has gone; its answer then has no reader. */
  #forward(incoming: IncomingMessage, body: Buffer, outgoing: ServerResponse, seen: Seen): void {
    const headers = { ...incoming.headers, host: new URL(this.upstream).host, connection: "close" };
    const onward = request(this.upstream + (incoming.url ?? "/"), { method: incoming.method, headers }, (answer) => {
      seen.status = answer.statusCode ?? null;
      answer.on("end", () => (seen.answeredAtMs = this.#clock.now()));
      if (outgoing.destroyed) {
        answer.resume();
        return;
      }
      const passed = { ...answer.headers };
      delete passed.connection;
      delete passed["keep-alive"];
      outgoing.writeHead(answer.statusCode ?? 500, passed);
      answer.pipe(outgoing);
    });
    onward.on("error", () => outgoing.destroy());
    onward.end(body);
  }
}
