import type { Admission, Slot } from "./admission.js";
import { QueryError } from "./clickhouse-errors.js";
import type { Engine, EngineSession } from "./engine.js";
import { engineSql, type Deliver, type Executor } from "./execution.js";
import { valuesSettings } from "./gate-lists.js";
import type { NamedSessions } from "./named-sessions.js";
import { markOf, QueryIds } from "./query-ids.js";
import type { RequestBody } from "./request-body.js";
import { enterSession } from "./request-session.js";
import type { QueryRequest } from "./request.js";
import type { BodySpool } from "./spool.js";
import { readStatement, textBytes, type Statement } from "./statement.js";
import type { ServerClock } from "./system-clock.js";

export type Job = {
  readonly request: QueryRequest;
  readonly body: RequestBody;
  readonly readonly: boolean;
  readonly arrivedMs: number;
  readonly signal: AbortSignal;
  /** Told once each: the statement that will run, and that the wait for a slot is over. */
  readonly onStatement: (statement: Statement) => void;
  readonly onAdmitted: () => void;
};

export type RunnerParts = {
  readonly engine: Engine;
  readonly executor: Executor;
  readonly sessions: NamedSessions;
  readonly admission: Admission;
  readonly spool: BodySpool;
  readonly clock: ServerClock;
};

/** Takes a query through gate, spool, slot and session to the engine. */
export class QueryRunner {
  readonly #parts: RunnerParts;
  readonly #ids = new QueryIds();

  constructor(parts: RunnerParts) {
    this.#parts = parts;
  }

  /** Runs one query and hands its result to `deliver`; slot and session are held until that has returned. Throws QueryErrors. */
  async run(job: Job, deliver: Deliver): Promise<void> {
    const { request } = job;
    checkReadonly(request);
    const id = this.#ids.enter(request.queryId);
    try {
      await this.#run(job, deliver);
    } finally {
      id.leave();
    }
  }

  async #run(job: Job, deliver: Deliver): Promise<void> {
    const { request } = job;
    const maxQuerySize = Number(request.settings.get("max_query_size") ?? 0) || 0;
    const statement = await readStatement(request.query, job.body, maxQuerySize, {
      inSession: request.session !== null,
      readonly: job.readonly,
      params: request.params,
    });
    job.onStatement(statement);
    // The body is complete before a slot is taken: a slow sender holds nobody up.
    const body = statement.kind === "insert" ? await this.#parts.spool.write(statement.data, job.signal) : null;
    try {
      await this.#withSession(job, statement, body?.path ?? null, deliver);
    } finally {
      await body?.remove();
    }
  }

  async #withSession(job: Job, statement: Statement, bodyPath: string | null, deliver: Deliver): Promise<void> {
    const { engine, sessions } = this.#parts;
    const named = job.request.session === null ? null : sessions.enter(job.request.session);
    try {
      const slot = await this.#slot(job);
      try {
        job.onAdmitted();
        const session = named?.session ?? engine.session();
        try {
          await this.#inSession(job, session, statement, bodyPath, deliver);
        } finally {
          if (named === null) await session.close();
        }
      } finally {
        slot.release();
      }
    } finally {
      named?.leave();
    }
  }

  /** Waiting for a slot is part of the query's time, as its caller sees it. */
  async #slot(job: Job): Promise<Slot> {
    const { admission, clock } = this.#parts;
    const budget = budgetMs(job.request);
    if (budget === null) return admission.enter(job.signal);
    const late = new AbortController();
    const left = Math.max(0, job.arrivedMs + budget - clock.nowMs());
    const timer = clock.after(left, () => late.abort(waitedTooLong(budget)));
    try {
      return await admission.enter(AbortSignal.any([job.signal, late.signal]));
    } finally {
      timer.cancel();
    }
  }

  async #inSession(
    job: Job,
    session: EngineSession,
    statement: Statement,
    bodyPath: string | null,
    deliver: Deliver,
  ): Promise<void> {
    const { executor } = this.#parts;
    const { request, signal } = job;
    const count = await session.statementCount(engineSql(statement, bodyPath));
    if (count > 1) {
      throw QueryError.of(62, "Syntax error (Multi-statements are not allowed): send one statement per request.");
    }
    const mark = markOf(request.queryId, request.settings.get("log_comment"));
    const changesDatabase = statement.kind === "other" && /^\s*use\b/i.test(statement.sql);
    const settings = this.#settings(job, mark, statement);
    const leave = await enterSession(session, { request, settings, textBytes: textBytes(statement), changesDatabase });
    try {
      signal.throwIfAborted();
      await executor.run({ statement, session, mark, bodyPath, defaultFormat: request.defaultFormat, signal }, deliver);
    } finally {
      await leave();
    }
  }

  #settings(job: Job, mark: string, statement: Statement): ReadonlyMap<string, string> {
    const settings = new Map(job.request.settings);
    settings.set("log_comment", mark);
    if (statement.kind === "insert" && statement.literalsOnly)
      for (const name of valuesSettings) settings.set(name, "0");
    // A named session could not be made writable again; there the gate alone refuses.
    if (job.readonly && job.request.session === null) settings.set("readonly", "2");
    const budget = budgetMs(job.request);
    if (budget !== null) {
      const left = Math.floor(job.arrivedMs + budget - this.#parts.clock.nowMs());
      if (left < 1) throw waitedTooLong(budget);
      settings.set("max_execution_time", (left / 1000).toFixed(3));
    }
    return settings;
  }
}

function checkReadonly(request: QueryRequest): void {
  if (request.session === null || (request.settings.get("readonly") ?? "0") === "0") return;
  throw QueryError.of(
    48,
    "readonly with session_id would last beyond the request on an embedded server; use it without a session.",
  );
}

function budgetMs(request: QueryRequest): number | null {
  const seconds = Number(request.settings.get("max_execution_time") ?? "0");
  return seconds > 0 ? seconds * 1000 : null;
}

const waitedTooLong = (budget: number): QueryError =>
  QueryError.of(
    159,
    `Timeout exceeded: the query waited for a free slot as long as its max_execution_time of ${budget} ms allows, and did not run.`,
  );
