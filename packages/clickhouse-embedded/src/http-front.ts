import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { authenticate } from "./auth.js";
import { fromEngine, QueryError } from "./clickhouse-errors.js";
import { checkLocal } from "./local-only.js";
import { formBoundary, readForm } from "./multipart.js";
import { answerQuery } from "./query-answer.js";
import type { QueryRunner } from "./query-runner.js";
import type { RecentLog } from "./recent-log.js";
import { requestBody } from "./request-body.js";
import { readRequest } from "./request.js";
import { sendError } from "./response.js";
import type { ServerClock } from "./system-clock.js";

export type FrontOptions = {
  readonly runner: QueryRunner;
  readonly log: RecentLog;
  readonly password: string;
  readonly timezone: string;
  readonly clock: ServerClock;
  readonly newId: () => string;
};

/** As ClickHouse's keep_alive_timeout: longer than clients keep sockets that they do not use. */
const keepAliveMs = 30_000;

/** ClickHouse's HTTP interface on loopback. Listens before the engine is open, so that a taken port costs nothing. */
export class HttpFront {
  readonly #server: Server;
  readonly #ready: Promise<FrontOptions>;
  #serve: (options: FrontOptions) => void = () => undefined;
  readonly #running = new Set<Promise<void>>();

  constructor() {
    this.#ready = new Promise((resolve) => (this.#serve = resolve));
    this.#server = createServer((request, response) => {
      const handled = this.#handle(request, response).finally(() => this.#running.delete(handled));
      this.#running.add(handled);
    });
    this.#server.keepAliveTimeout = keepAliveMs;
    // An insert may stream for as long as it likes.
    this.#server.requestTimeout = 0;
  }

  /** Returns the port; rejects with the error of the system. */
  async listen(port: number): Promise<number> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen(port, "127.0.0.1", () => {
        this.#server.off("error", reject);
        resolve();
      });
    });
    return (this.#server.address() as AddressInfo).port;
  }

  /** Requests that came before are answered now. */
  serve(options: FrontOptions): void {
    this.#serve(options);
  }

  /** Stops listening, cuts all connections (which ends their queries) and waits for what runs. */
  async close(): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
    await Promise.all(this.#running);
  }

  /** Never rejects. */
  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const gone = new AbortController();
    response.on("close", () => {
      if (!response.writableFinished)
        gone.abort(QueryError.of(394, "Query was cancelled: the client closed the connection."));
    });
    try {
      await this.#answer(await this.#ready, request, response, gone.signal);
    } catch (error) {
      if (response.headersSent) {
        response.destroy();
      } else if (!response.destroyed) sendError(response, fromEngine(error));
    } finally {
      // What nobody read of the body runs to waste, so that the connection can be used again.
      request.unpipe();
      request.resume();
    }
  }

  async #answer(
    options: FrontOptions,
    request: IncomingMessage,
    response: ServerResponse,
    signal: AbortSignal,
  ): Promise<void> {
    const arrivedMs = options.clock.nowMs();
    const url = new URL(request.url ?? "/", "http://localhost");
    response.setHeader("X-ClickHouse-Server-Display-Name", "holdfast-embedded");
    checkLocal(request.headers);
    if (isPing(request, url)) {
      response.setHeader("Content-Type", "text/html; charset=UTF-8");
      response.end("Ok.\n");
      return;
    }
    if (url.pathname !== "/") {
      response.statusCode = 404;
      response.end(`There is no handle ${url.pathname}. Queries go to /, a health check to /ping.\n`);
      return;
    }
    authenticate(request.headers, url.searchParams, options.password);
    const body = requestBody(request);
    const boundary = formBoundary(request.headers["content-type"]);
    const form = boundary === null ? [] : await readForm(body, boundary);
    const fields = new URLSearchParams([...url.searchParams, ...form]);
    await answerQuery({
      ...options,
      query: readRequest(fields, request.headers, options.newId),
      body: boundary === null ? body : null,
      request,
      response,
      arrivedMs,
      signal,
    });
  }
}

function isPing(request: IncomingMessage, url: URL): boolean {
  if (url.pathname === "/ping" || url.pathname === "/replicas_status") return true;
  return (
    url.pathname === "/" && (request.method === "GET" || request.method === "HEAD") && !url.searchParams.has("query")
  );
}
