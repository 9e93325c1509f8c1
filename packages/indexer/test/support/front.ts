import { patient } from "@holdfast-private/tests-machine";
import { createServer, request, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/**
 * What the front does with a request. Before: `refuse` answers 503 and `limit` error 319, neither forwarded; `stall`
 * never answers. After it was forwarded: `cut` ends the connection without an answer.
 */
export type Verdict = "pass" | "refuse" | "limit" | "stall" | "cut";

export type Hook = {
  /** Matched against the statement: the `query` parameter and the body. */
  readonly match: RegExp;
  /** Runs before the request is forwarded. */
  readonly before?: (statement: string) => Promise<Verdict | undefined>;
  /** Runs when the server has answered, before its answer goes on. */
  readonly after?: (statement: string) => Promise<Verdict | undefined>;
};

export interface Front extends AsyncDisposable {
  readonly url: string;
  /** Statements in the order in which they came, with their settings. */
  readonly log: { readonly statement: string; readonly settings: URLSearchParams }[];
  /** Replaces the hooks. */
  hook(...hooks: Hook[]): void;
}

/** An HTTP server in front of ClickHouse that a test can make something happen in between, before or after a statement. */
export async function startFront(target: string): Promise<Front> {
  const log: Front["log"] = [];
  let hooks: readonly Hook[] = [];
  const server = createServer((incoming, outgoing) => {
    void handle(incoming, outgoing, new URL(target), log, () => hooks).catch(() => outgoing.destroy());
  });
  patient(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${String(port)}`,
    log,
    hook: (...next) => {
      hooks = next;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function handle(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  target: URL,
  log: Front["log"],
  hooks: () => readonly Hook[],
): Promise<void> {
  const parts: Buffer[] = [];
  for await (const part of incoming) parts.push(part as Buffer);
  const body = Buffer.concat(parts);
  const settings = new URL(incoming.url ?? "/", "http://front").searchParams;
  const statement = `${settings.get("query") ?? ""}\n${body.toString("latin1")}`.trim();
  log.push({ statement, settings });
  const hook = hooks().find((each) => each.match.test(statement));
  const verdict = (await hook?.before?.(statement)) ?? "pass";
  if (verdict === "stall") return;
  if (verdict === "refuse") {
    outgoing.writeHead(503).end("the front refuses");
    return;
  }
  if (verdict === "limit") {
    const text = "Code: 319. DB::Exception: Unknown status of INSERT. (UNKNOWN_STATUS_OF_INSERT)";
    outgoing.writeHead(500, { "x-clickhouse-exception-code": "319" }).end(text);
    return;
  }
  const answer = await forward(incoming, body, target);
  if (verdict === "cut" || (await hook?.after?.(statement)) === "cut") {
    outgoing.destroy();
    return;
  }
  outgoing.writeHead(answer.status, answer.headers).end(answer.body);
}

type Answer = { status: number; headers: IncomingMessage["headers"]; body: Buffer };

function forward(incoming: IncomingMessage, body: Buffer, target: URL): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const headers = { ...incoming.headers, host: target.host, "content-length": String(body.length) };
    delete headers["transfer-encoding"];
    const options = { host: target.hostname, port: target.port, path: incoming.url, method: incoming.method, headers };
    const outgoing = request(options, (answer) => {
      const parts: Buffer[] = [];
      answer.on("data", (part: Buffer) => parts.push(part));
      answer.on("end", () => {
        const fixed = { ...answer.headers };
        delete fixed["transfer-encoding"];
        delete fixed["content-length"];
        resolve({ status: answer.statusCode ?? 500, headers: fixed, body: Buffer.concat(parts) });
      });
      answer.on("error", reject);
    });
    outgoing.on("error", reject);
    outgoing.end(body);
  });
}
