import { createServer, request, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** A request as the proxy saw it: the statement, wherever it stood, and when it came and was answered. */
export type Seen = { readonly text: string; readonly atMs: number; answeredAtMs: number | null; status: number | null };

/**
 * What happens to a request. `fail` and `answer` answer an error without asking the server; `stall` never answers and asks
 * nobody; `lateMs` sends it on after a while; `lost` sends it on and drops the answer with its connection; `deliverLateMs` is
 * both.
 */
export type Action =
  | "fail"
  | "stall"
  | "lost"
  | { readonly lateMs: number }
  | { readonly deliverLateMs: number }
  | { readonly answer: number; readonly code: number; readonly name: string };
/** Sees a request before it is sent on and after it was answered; "drop" ends its connection. */
export type Watcher = (moment: "before" | "after", text: string) => "drop" | undefined;
type Rule = { readonly match: (text: string) => boolean; readonly action: Action; left: number };

/** Between a service and ClickHouse: sees every statement, and does to some of them what networks do. */
export class Proxy {
  readonly log: Seen[] = [];
  watch: Watcher = () => undefined;
  #rules: Rule[] = [];
  readonly #server: Server;
  readonly #timers = new Set<NodeJS.Timeout>();

  private constructor(
    private readonly upstream: string,
    private readonly keepLog: boolean,
  ) {
    this.#server = createServer((incoming, outgoing) => this.#take(incoming, outgoing));
  }

  static async open(upstream: string, o: { keepLog: boolean } = { keepLog: true }): Promise<Proxy> {
    const proxy = new Proxy(upstream, o.keepLog);
    await new Promise<void>((resolve) => proxy.#server.listen(0, "127.0.0.1", resolve));
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Applies `action` to the next `times` requests whose statement matches. */
  on(match: RegExp, action: Action, times = Infinity): void {
    this.#rules.push({ match: (text) => match.test(text), action, left: times });
  }
  clear(): void {
    this.#rules = [];
  }
  seen(match: RegExp): Seen[] {
    return this.log.filter(({ text }) => match.test(text));
  }

  async close(): Promise<void> {
    for (const timer of this.#timers) clearTimeout(timer);
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #take(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const parts: Buffer[] = [];
    incoming.on("data", (part: Buffer) => parts.push(part));
    incoming.on("error", () => outgoing.destroy());
    incoming.on("end", () => {
      const body = Buffer.concat(parts);
      const query = new URL(incoming.url ?? "/", "http://x").searchParams.get("query") ?? "";
      const seen: Seen = {
        text: `${query} ${body.toString()}`,
        atMs: performance.now(),
        answeredAtMs: null,
        status: null,
      };
      if (this.keepLog) this.log.push(seen);
      if (this.watch("before", seen.text) === "drop") {
        outgoing.destroy();
        return;
      }
      const rule = this.#rules.find(({ match, left }) => left > 0 && match(seen.text));
      if (rule !== undefined) rule.left -= 1;
      this.#act(rule?.action ?? null, incoming, body, outgoing, seen);
    });
  }

  #act(action: Action | null, incoming: IncomingMessage, body: Buffer, outgoing: ServerResponse, seen: Seen): void {
    if (action === "stall") return;
    if (action === "fail" || (typeof action === "object" && action !== null && "answer" in action)) {
      const { answer, code, name } =
        action === "fail" ? { answer: 500, code: 1002, name: "UNKNOWN_EXCEPTION" } : action;
      outgoing.writeHead(answer, { "content-type": "text/plain", "x-clickhouse-exception-code": String(code) });
      outgoing.end(`Code: ${code}. DB::Exception: made to fail. (${name})\n`);
      return;
    }
    if (action !== null && action !== "lost") {
      const [ms, answer] = "lateMs" in action ? [action.lateMs, outgoing] : [action.deliverLateMs, null];
      const timer = setTimeout(() => {
        this.#timers.delete(timer);
        this.#forward(incoming, body, answer, seen);
      }, ms);
      this.#timers.add(timer);
      return;
    }
    this.#forward(incoming, body, action === "lost" ? null : outgoing, seen);
    if (action === "lost") outgoing.once("close", () => undefined);
  }

  #forward(incoming: IncomingMessage, body: Buffer, outgoing: ServerResponse | null, seen: Seen): void {
    const headers = { ...incoming.headers, host: new URL(this.upstream).host, connection: "close" };
    const onward = request(this.upstream + (incoming.url ?? "/"), { method: incoming.method, headers }, (answer) => {
      seen.status = answer.statusCode ?? null;
      answer.on("end", () => (seen.answeredAtMs = performance.now()));
      if (outgoing === null) {
        answer.resume();
        answer.on("end", () => incoming.socket.destroy());
        return;
      }
      const passed = { ...answer.headers };
      delete passed.connection;
      delete passed["keep-alive"];
      if (this.watch("after", seen.text) === "drop") {
        outgoing.destroy();
        return;
      }
      outgoing.writeHead(answer.statusCode ?? 500, passed);
      answer.pipe(outgoing);
    });
    onward.on("error", () => outgoing?.destroy());
    onward.end(body);
  }
}
