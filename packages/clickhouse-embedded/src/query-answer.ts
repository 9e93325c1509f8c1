import type { IncomingMessage, ServerResponse } from "node:http";
import { fromEngine } from "./clickhouse-errors.js";
import type { QueryRunner } from "./query-runner.js";
import type { RecentLog, RecentQuery } from "./recent-log.js";
import { emptyBody, type RequestBody } from "./request-body.js";
import type { QueryRequest } from "./request.js";
import { ResultSender } from "./result-sender.js";
import { textOf } from "./statement.js";
import type { ServerClock } from "./system-clock.js";

export type QueryToAnswer = {
  readonly runner: QueryRunner;
  readonly log: RecentLog;
  readonly timezone: string;
  readonly clock: ServerClock;
  readonly newId: () => string;
  readonly query: QueryRequest;
  /** Null: the body was a form, and has been read. */
  readonly body: RequestBody | null;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly arrivedMs: number;
  readonly signal: AbortSignal;
};

/** Runs a query, sends its result and keeps its entry in the log. Throws what went wrong, for the front to send. */
export async function answerQuery(a: QueryToAnswer): Promise<void> {
  const { query, request, response, signal } = a;
  response.setHeader("X-ClickHouse-Query-Id", query.queryId);
  const change = a.log.add(entryOf(a));
  const since = (): number => Math.round(a.clock.nowMs() - a.arrivedMs);
  const job = {
    request: query,
    body: a.body ?? emptyBody(),
    readonly: request.method !== "POST",
    arrivedMs: a.arrivedMs,
    signal,
    onStatement: (statement: Parameters<typeof textOf>[0]) => change({ query: textOf(statement) }),
    onAdmitted: () => change({ waitedMs: since() }),
  };
  const accepted = request.headers["accept-encoding"];
  const sender = new ResultSender({
    response,
    acceptEncoding: typeof accepted === "string" ? accepted : "",
    compress: query.compress,
    waitEnd: query.waitEnd,
    holdBytes: query.holdBytes,
    timezone: a.timezone,
    exceptionTag: a.newId().replaceAll("-", "").slice(0, 16),
    head: request.method === "HEAD",
  });
  try {
    await a.runner.run(job, async (result) => {
      const stats = await sender.take(result);
      change({ readRows: stats?.readRows ?? 0, writtenRows: stats?.writtenRows ?? 0 });
    });
    change({ outcome: "finished", elapsedMs: since() });
  } catch (error) {
    const e = fromEngine(signal.aborted ? signal.reason : error);
    const outcome = signal.aborted ? "canceled" : "failed";
    change({ outcome, errorCode: e.clickhouseCode, errorText: e.text, elapsedMs: since() });
    if (signal.aborted || !sender.started) throw e;
    await sender.finish(e);
    return;
  }
  await sender.finish(null);
}

function entryOf({ query, request, clock }: QueryToAnswer): RecentQuery {
  return {
    queryId: query.queryId,
    query: query.query,
    settings: Object.fromEntries(query.settings),
    paramNames: [...query.params.keys()],
    database: query.database ?? "default",
    sessionId: query.session?.id ?? null,
    userAgent: request.headers["user-agent"] ?? "",
    startedAtMs: clock.wallMs(),
    waitedMs: null,
    elapsedMs: 0,
    outcome: "running",
    errorCode: 0,
    errorText: "",
    readRows: 0,
    writtenRows: 0,
  };
}
