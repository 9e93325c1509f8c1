// Git's own HTTP backend behind a small server on loopback, which can lose answers, refuse and stall, and writes down what it was asked.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { patient } from "@holdfast-private/tests-machine";

/** `lost`: done, then the connection is cut. `reset`: cut before anything is done. `stalled`: never answered. A number: that status, nothing done. */
export type HttpFault = "lost" | "reset" | "stalled" | number;
type Service = "git-upload-pack" | "git-receive-pack";

export type GitHttp = AsyncDisposable & {
  /** The address of a repository below the root. */
  url(name: string): string;
  /** What was asked so far: `GET git-upload-pack` (the refs), `POST git-receive-pack` (a push), … */
  readonly log: string[];
  /** The next `times` requests of this method for this service go wrong. */
  fail(method: "GET" | "POST", service: Service, fault: HttpFault, times?: number): void;
  /** From now on nothing goes wrong. */
  heal(): void;
  /** How many requests wait for an answer that never comes. */
  stalled(): number;
};

const backend = "/usr/lib/git-core/git-http-backend";

/** Serves the bare repositories below a folder. With `auth`, who does not give it is answered 401, and every error repeats what was given. */
export async function startGitHttp(root: string, auth?: { username: string; password: string }): Promise<GitHttp> {
  const log: string[] = [];
  const faults: { method: string; service: string; fault: HttpFault; times: number }[] = [];
  let waiting = 0;
  const expected = auth && `Basic ${Buffer.from(`${auth.username}:${auth.password}`).toString("base64")}`;
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const url = new URL(request.url ?? "", "http://host");
    const service = url.searchParams.get("service") ?? url.pathname.split("/").at(-1) ?? "";
    log.push(`${request.method} ${service}`);
    const given = request.headers.authorization;
    if (expected !== undefined && given !== expected) {
      response.writeHead(401, { "www-authenticate": 'Basic realm="git"' }).end(`no: ${given ?? ""}`);
      return;
    }
    const fault = faults.find((one) => one.times > 0 && one.method === request.method && one.service === service);
    if (fault !== undefined) fault.times--;
    if (fault?.fault === "reset") return void request.socket.destroy();
    if (fault?.fault === "stalled") {
      waiting++;
      return;
    }
    if (typeof fault?.fault === "number") {
      request.resume();
      response.writeHead(fault.fault, { "content-type": "text/plain" }).end(`${fault.fault} for ${given ?? "no user"}`);
      return;
    }
    const { status, headers, body } = await cgi(root, request, url);
    if (fault?.fault === "lost") return void request.socket.destroy();
    response.writeHead(status, headers).end(body);
  };
  const server = patient(
    createServer((request, response) => void answer(request, response).catch(() => request.socket.destroy())),
  );
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: (name) => `http://127.0.0.1:${port}/${name}`,
    log,
    fail: (method, service, fault, times = 1) => void faults.push({ method, service, fault, times }),
    heal: () => void (faults.length = 0),
    stalled: () => waiting,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

async function cgi(
  root: string,
  request: IncomingMessage,
  url: URL,
): Promise<{ status: number; headers: Record<string, string>; body: Buffer }> {
  const input = await buffer(request);
  const child = spawn(backend, {
    env: {
      PATH: process.env["PATH"],
      GIT_PROJECT_ROOT: root,
      GIT_HTTP_EXPORT_ALL: "1",
      GIT_CONFIG_NOSYSTEM: "1",
      HOME: root,
      REQUEST_METHOD: request.method,
      PATH_INFO: url.pathname,
      QUERY_STRING: url.search.slice(1),
      CONTENT_TYPE: request.headers["content-type"] ?? "",
      CONTENT_LENGTH: String(input.length),
      HTTP_CONTENT_ENCODING: request.headers["content-encoding"] ?? "",
      GIT_PROTOCOL: String(request.headers["git-protocol"] ?? ""),
      REMOTE_USER: "someone",
      REMOTE_ADDR: "127.0.0.1",
    },
    stdio: ["pipe", "pipe", "ignore"],
  });
  child.stdin.on("error", () => undefined).end(input);
  const out = await buffer(child.stdout);
  const end = out.indexOf("\r\n\r\n");
  const headers = Object.fromEntries(
    out
      .subarray(0, end)
      .toString("latin1")
      .split("\r\n")
      .map((line) => [line.slice(0, line.indexOf(":")).toLowerCase(), line.slice(line.indexOf(":") + 1).trim()]),
  ) as Record<string, string>;
  const { status = "200", ...rest } = headers;
  return { status: Number(status.split(" ")[0]), headers: rest, body: out.subarray(end + 4) };
}
