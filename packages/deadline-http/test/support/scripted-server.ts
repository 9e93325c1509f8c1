// A small HTTP server that answers as a script says and notes what it received, with arrival times and bytes per connection.
import { patient } from "@holdfast-private/tests-machine";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";

export interface Received {
  readonly number: number;
  /** When its first line was read. */
  readonly atMs: number;
  readonly connection: number;
  readonly url: URL;
  readonly body: string;
  /** The statement: the body, or for an insert with rows the address. */
  readonly statement: string;
}

export type Answer = (response: ServerResponse, request: Received) => void;

export interface ScriptedServer extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  readonly received: Received[];
  /** Bytes that came on each connection, handshakes excluded. */
  readonly connections: readonly Socket[];
}

/** Answers are used one after the other; the last repeats. */
export const scriptedServer = (...answers: Answer[]): Promise<ScriptedServer> => serverOn(0, answers);

/** As scriptedServer, on a given port (0: any that is free). */
export async function serverOn(atPort: number, answers: readonly Answer[]): Promise<ScriptedServer> {
  const received: Received[] = [];
  const connections: Socket[] = [];
  const server = createServer((request, response) => {
    const atMs = performance.now();
    request.on("error", () => undefined);
    response.on("error", () => undefined);
    readBody(request).then(
      (body) => {
        const url = new URL(request.url ?? "/", "http://server");
        const entry: Received = {
          number: received.length + 1,
          atMs,
          connection: connections.indexOf(request.socket),
          url,
          body,
          statement: url.searchParams.get("query") ?? body,
        };
        received.push(entry);
        answers[Math.min(received.length, answers.length) - 1]?.(response, entry);
      },
      () => undefined,
    );
  });
  // What a test does with a connection it may do as late as it likes.
  patient(server);
  server.on("connection", (socket: Socket) => {
    connections.push(socket);
    socket.on("error", () => undefined);
  });
  await new Promise<void>((resolve) => server.listen(atPort, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    received,
    connections,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

const reset = (response: ServerResponse): void => {
  response.socket?.resetAndDestroy();
};

/** The answers that tests compose scripts of. */
export const answer = {
  silent: (() => undefined) as Answer,
  reset: reset as Answer,
  rows:
    (text: string): Answer =>
    (response) =>
      response.end(text),
  ok: ((response) => response.end()) as Answer,
  status:
    (status: number, text = "", headers: Record<string, string> = {}): Answer =>
    (response) =>
      response.writeHead(status, headers).end(text),
  /** As ClickHouse answers an error. */
  exception:
    (code: number, name: string, status = 500): Answer =>
    (response) =>
      response
        .writeHead(status, { "X-ClickHouse-Exception-Code": String(code) })
        .end(`Code: ${code}. DB::Exception: made up. (${name}) (version 26.7.2.1)\n`),
  /** Headers and the first part, then nothing. */
  stalled:
    (text: string): Answer =>
    (response) => {
      response.writeHead(200, { "content-length": String(text.length + 60) });
      response.write(text);
    },
  /** Headers, then one byte after another, never idle, never done. */
  trickle:
    (everyMs: number): Answer =>
    (response) => {
      response.writeHead(200, { "content-length": "100000" });
      const timer = setInterval(() => response.write(" "), everyMs);
      response.on("close", () => clearInterval(timer));
    },
  /** Rows, then the connection goes without the end of the chunked body. */
  cutAfter:
    (text: string): Answer =>
    (response) => {
      response.writeHead(200);
      response.write(text, () => setTimeout(() => reset(response), 20));
    },
  /** Neither length nor chunks: the end of the connection is the end of the body. */
  unframed:
    (text: string): Answer =>
    (response) => {
      response.useChunkedEncodingByDefault = false;
      response.shouldKeepAlive = false;
      response.writeHead(200, { connection: "close" });
      response.end(text);
    },
};

/** Runs `body` with a server and closes it whatever happens. */
export async function withServer<T>(answers: Answer[], body: (server: ScriptedServer) => Promise<T>): Promise<T> {
  const server = await scriptedServer(...answers);
  try {
    return await body(server);
  } finally {
    await server[Symbol.asyncDispose]();
  }
}

/** Waits until the server has so many requests. */
export async function arrivals(server: ScriptedServer, count: number): Promise<void> {
  while (server.received.length < count) await new Promise((resolve) => setTimeout(resolve, 2));
}
