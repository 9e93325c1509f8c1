// Storages of both supported majors, bound and plain, against HTTP servers of the tests' own.
import { patient } from "@holdfast-private/tests-machine";
import http, { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import { createServer as createTcpServer, Socket, type AddressInfo } from "node:net";
import type { Storage, StorageOptions } from "@google-cloud/storage";
import { onTestFinished } from "vitest";
import { bind, type BindOptions } from "@holdfast/deadline-http/gcs";

export type StorageConstructor = new (o?: StorageOptions) => Storage;

export interface Vendor {
  readonly name: string;
  readonly Storage: StorageConstructor | null;
}

async function load(name: string, module: () => Promise<unknown>): Promise<Vendor> {
  try {
    const loaded = (await module()) as { Storage: StorageConstructor };
    return { name, Storage: loaded.Storage };
  } catch (error) {
    // Told in the title of what is skipped.
    return { name: `${name}: not on Node ${process.version} (${String(error).split("\n")[0]})`, Storage: null };
  }
}

/** 8 asks for Node 22; where it does not load, its tests are skipped, with the reason in their title. */
export const vendorOf = (major: 7 | 8): Promise<Vendor> =>
  major === 7
    ? load("@google-cloud/storage 7", () => import("@google-cloud/storage"))
    : load("@google-cloud/storage 8", () => import("@google-cloud/storage-8"));

export interface Received {
  readonly method: string;
  readonly url: URL;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

export type Answering = (response: ServerResponse, request: Received) => void;

export interface GcsServer {
  readonly url: string;
  readonly port: number;
  readonly received: Received[];
  readonly connections: Socket[];
  /** Bytes of requests that came, whole or not. */
  bytes(): number;
}

/** Answers each request, when its body is whole, as the script says; its last answer repeats. Closed when the test is over. */
export async function gcsServer(...script: Answering[]): Promise<GcsServer> {
  const received: Received[] = [];
  const connections: Socket[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("error", () => undefined);
    response.on("error", () => undefined);
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const url = new URL(request.url ?? "/", "http://server");
      const entry = { method: request.method ?? "", url, headers: request.headers, body: Buffer.concat(chunks) };
      received.push(entry);
      script[Math.min(received.length, script.length) - 1]?.(response, entry);
    });
  });
  // What a test does with a connection it may do as late as it likes.
  patient(server);
  server.on("connection", (socket: Socket) => {
    connections.push(socket);
    socket.on("error", () => undefined);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  const { port } = server.address() as AddressInfo;
  const bytes = (): number => connections.reduce((sum, socket) => sum + socket.bytesRead, 0);
  return { url: `http://127.0.0.1:${port}`, port, received, connections, bytes };
}

/** What the API answers. */
export const says = {
  silent: (() => undefined) as Answering,
  reset: ((response) => void response.socket?.resetAndDestroy()) as Answering,
  json:
    (value: unknown, status = 200): Answering =>
    (response) =>
      void response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value)),
  error: (status: number, reason = "made up"): Answering =>
    says.json(
      { error: { code: status, message: `an error of ${status}`, errors: [{ reason, message: reason }] } },
      status,
    ),
  bytes:
    (text: string): Answering =>
    (response) =>
      void response.writeHead(200, { "content-length": String(text.length) }).end(text),
  /** Headers and a part of the body, then nothing. */
  stalled: ((response) => {
    response.writeHead(200, { "content-type": "application/json", "content-length": "100" });
    response.write('{"name":"f"');
  }) as Answering,
  /** Headers, then a byte now and again: never idle, never done. */
  trickle: ((response) => {
    response.writeHead(200, { "content-type": "application/json", "content-length": "100000" });
    const timer = setInterval(() => response.write(" "), 40);
    response.on("close", () => clearInterval(timer));
  }) as Answering,
  /** Headers and a part of the body, then the connection goes. */
  cut: ((response) => {
    response.writeHead(200, { "content-type": "application/json", "content-length": "100" });
    response.write('{"name":"f"', () => setTimeout(() => response.socket?.resetAndDestroy(), 10));
  }) as Answering,
  /** As `cut`, but the connection is closed in good order: the vendor's client does not notice, and waits. */
  ended: ((response) => {
    response.writeHead(200, { "content-type": "application/json", "content-length": "100" });
    response.write('{"name":"f"', () => setTimeout(() => response.socket?.end(), 10));
  }) as Answering,
};

/** Keeps objects, the parts of resumable uploads included: `keep` says how many bytes of a put it keeps (default: all). */
export function objects(keep: (put: Received, number: number) => number = (put) => put.body.length) {
  const stored = new Map<string, Buffer>();
  const parts = new Map<string, Buffer>();
  let puts = 0;
  const answering: Answering = (response, request) => {
    const name = request.url.searchParams.get("name") ?? "";
    if (request.url.searchParams.get("uploadType") === "resumable") {
      const host = request.headers.host ?? "";
      response.writeHead(200, { location: `http://${host}/session?name=${name}&upload_id=s3cret-session` }).end();
      return;
    }
    if (request.url.pathname === "/session") {
      const [, from = "0", total = "*"] =
        /^bytes (?:(\d+)-\d+|\*)\/(\d+|\*)$/.exec(request.headers["content-range"] ?? "") ?? [];
      const before = parts.get(name) ?? Buffer.alloc(0);
      const kept = request.body.subarray(0, keep(request, (puts += 1)));
      const now = Buffer.concat([before.subarray(0, Number(from)), kept]);
      parts.set(name, now);
      if (total === String(now.length)) {
        stored.set(name, now);
        says.json({ name, size: String(now.length) })(response, request);
      } else response.writeHead(308, now.length > 0 ? { range: `bytes=0-${now.length - 1}` } : {}).end();
      return;
    }
    if (request.url.searchParams.get("uploadType") === "multipart") {
      const text = request.body.toString("latin1");
      const content = text.split("\r\n\r\n")[2]?.replace(/\r\n--[^\r]*$/s, "") ?? "";
      stored.set(name, Buffer.from(content, "latin1"));
      says.json({ name, size: String(content.length) })(response, request);
      return;
    }
    says.json({ name: "f" })(response, request);
  };
  return { answering, stored };
}

/** Accepts connections and counts bytes; what comes is handed to `onData`. */
export async function tcpServer(
  onData: (socket: Socket, got: number) => void = () => undefined,
): Promise<{ port: number; bytes: () => number; sockets: Socket[]; forget: () => void }> {
  const sockets: Socket[] = [];
  let got = 0;
  const server = createTcpServer((socket) => {
    sockets.push(socket);
    socket.on("error", () => undefined);
    socket.on("data", (chunk) => {
      got += chunk.length;
      onData(socket, got);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, bytes: () => got, sockets, forget: () => (got = 0) };
}

export const plainStorage = (vendor: Vendor, url: string, o: StorageOptions = {}): Storage =>
  new vendor.Storage!({ apiEndpoint: url, projectId: "p", ...o });

export const boundStorage = (vendor: Vendor, url: string, o: BindOptions = {}, config: StorageOptions = {}): Storage =>
  bind(plainStorage(vendor, url, config), o);

type Connect = (options: object) => Socket;

/** The next requests of this storage go through Node's own global agent, whose connections the test makes. */
export function connectsBy(storage: Storage, o: { maxSockets?: number; connect?: Connect; lookup?: unknown }): void {
  const agent = http.globalAgent as unknown as {
    maxSockets: number;
    createConnection: Connect;
    options: Record<string, unknown>;
  };
  // What an earlier test left there would be used again.
  http.globalAgent.destroy();
  const before = { maxSockets: agent.maxSockets, own: Object.getOwnPropertyDescriptor(agent, "createConnection") };
  storage.interceptors.push({ request: (options) => Object.assign(options, { forever: false }) as never });
  if (o.maxSockets !== undefined) agent.maxSockets = o.maxSockets;
  if (o.connect) agent.createConnection = o.connect;
  if (o.lookup) agent.options["lookup"] = o.lookup;
  onTestFinished(() => {
    agent.maxSockets = before.maxSockets;
    delete agent.options["lookup"];
    if (before.own) Object.defineProperty(agent, "createConnection", before.own);
    else Reflect.deleteProperty(agent, "createConnection");
    http.globalAgent.destroy();
  });
}

/** A socket that goes on connecting for ever. */
export function connecting(): Socket {
  const socket = new Socket();
  Object.defineProperty(socket, "connecting", { value: true });
  return socket;
}

/** A socket whose connection is refused. */
export function refusing(): Socket {
  const socket = connecting();
  process.nextTick(() => {
    socket.destroy(Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED", syscall: "connect" }));
  });
  return socket;
}
