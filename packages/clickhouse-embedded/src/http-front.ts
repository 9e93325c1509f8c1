import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { authenticate } from "./auth.js";
import { fromEngine, QueryError } from "./clickhouse-errors.js";
import type { Job, QueryRunner } from "./query-runner.js";
import type { RecentLog } from "./recent-log.js";
import { requestBody } from "./request-body.js";
import { readRequest, type QueryRequest } from "./request.js";
import { sendError, sendResult } from "./response.js";
import { textOf } from "./statement.js";
import type { ServerClock } from "./system-clock.js";

export type FrontOptions = {
  readonly runner: QueryRunner;
  readonly log: RecentLog;
  readonly password: string;
  readonly timezone: string;
  readonly clock: ServerClock;
  readonly newId: () => string;
};

/** ClickHouse's HTTP interface on loopback. Listens before the engine is open, so that a taken port costs nothing. */
export class HttpFront {
  readonly #server: Server;
  #options: FrontOptions | null = null;
  readonly #waiting: (() => void)[] = [];

  constructor() {
    this.#server = createServer((request, response) => void this.#handle(request, response));
    this.#server.keepAliveTimeout = 10_000;
    this.#server.requestTimeout = 0;
  }

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
    this.#options = options;
    for (const go of this.#waiting.splice(0)) go();
  }

  /** Stops listening and cuts all connections. */
  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (this.#options === null) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    const options = this.#options;
    if (options === null) return;
    const gone = new AbortController();
    response.on("close", () => {
      if (!response.writableFinished)
        gone.abort(QueryError.of(394, "Query was cancelled: the client closed the connection."));
    });
    try {
      await this.#answer(options, request, response, gone.signal);
    } catch (error) {
      if (response.headersSent) response.destroy();
      else if (!response.destroyed) sendError(response, fromEngine(error));
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
    if (
      url.pathname === "/ping" ||
      url.pathname === "/replicas_status" ||
      (url.pathname === "/" && request.method === "GET" && url.search === "")
    ) {
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
    const query = readRequest(url.searchParams, request.headers, options.newId);
    response.setHeader("X-ClickHouse-Query-Id", query.queryId);
    await this.#query(options, query, request, response, { arrivedMs, signal });
  }

  async #query(
    options: FrontOptions,
    query: QueryRequest,
    request: IncomingMessage,
    response: ServerResponse,
    o: { arrivedMs: number; signal: AbortSignal },
  ): Promise<void> {
    const change = options.log.add({
      queryId: query.queryId,
      query: query.query,
      settings: Object.fromEntries(query.settings),
      paramNames: [...query.params.keys()],
      database: query.database ?? "default",
      sessionId: query.session?.id ?? null,
      userAgent: request.headers["user-agent"] ?? "",
      startedAtMs: options.clock.wallMs(),
      waitedMs: 0,
      elapsedMs: 0,
      outcome: "running",
      errorCode: 0,
      errorText: "",
      readRows: 0,
      writtenRows: 0,
    });
    const since = (): number => Math.round(options.clock.nowMs() - o.arrivedMs);
    const failed = (error: unknown): void => {
      const e = fromEngine(o.signal.aborted ? o.signal.reason : error);
      change({
        outcome: o.signal.aborted ? "canceled" : "failed",
        errorCode: e.clickhouseCode,
        errorText: e.text,
        elapsedMs: since(),
      });
    };
    const job: Job = {
      request: query,
      body: requestBody(request),
      readonly: request.method !== "POST",
      arrivedMs: o.arrivedMs,
      signal: o.signal,
      onStatement: (statement) => change({ query: textOf(statement) }),
      onAdmitted: () => change({ waitedMs: since() }),
    };
    try {
      await options.runner.run(job, async (result) => {
        await sendResult(result, {
          response,
          acceptEncoding: String(request.headers["accept-encoding"] ?? ""),
          compress: query.compress,
          waitEnd: query.waitEnd,
          holdBytes: query.holdBytes,
          timezone: options.timezone,
          exceptionTag: options.newId().replaceAll("-", "").slice(0, 16),
          head: request.method === "HEAD",
        });
        const stats = await result.done;
        change({ outcome: "finished", readRows: stats.readRows, writtenRows: stats.writtenRows, elapsedMs: since() });
      });
    } catch (error) {
      failed(error);
      throw error;
    }
  }
}
