import { Admission } from "./admission.js";
import { fromEngine, QueryError } from "./clickhouse-errors.js";
import type { Engine, EngineSession } from "./engine.js";
import type { NamedSessions } from "./named-sessions.js";
import type { PipePool } from "./pipes.js";
import type { RequestBody } from "./request-body.js";
import type { QueryRequest } from "./request.js";
import { enterSession } from "./request-session.js";
import { literal } from "./settings-sql.js";
import type { BodySpool } from "./spool.js";
import { readStatement, type Statement } from "./statement.js";
import type { ServerClock } from "./system-clock.js";

/** What the engine did for a query, in the words of X-ClickHouse-Summary. */
export type Stats = {
  readonly readRows: number;
  readonly readBytes: number;
  readonly writtenRows: number;
  readonly writtenBytes: number;
  readonly elapsedSeconds: number;
};

/**
 * A result on its way: `chunks` end when the engine has no more, `done` then says whether that was the end or an error (a QueryError).
 * Both must be awaited.
 */
export type Result = { readonly format: string; readonly chunks: AsyncIterable<Buffer>; readonly done: Promise<Stats> };

export type Job = {
  readonly request: QueryRequest;
  readonly body: RequestBody;
  readonly readonly: boolean;
  readonly arrivedMs: number;
  readonly signal: AbortSignal;
  /** Told once each: the text that will run, and when the wait for a slot is over. */
  readonly onStatement: (statement: Statement) => void;
  readonly onAdmitted: () => void;
};

/** Runs queries: gate, slot, session, engine. */
export class QueryRunner {
  readonly #engine: Engine;
  readonly #sessions: NamedSessions;
  readonly #admission: Admission;
  readonly #pipes: PipePool;
  readonly #spool: BodySpool;
  readonly #clock: ServerClock;
  readonly #newId: () => string;

  constructor(o: {
    engine: Engine;
    sessions: NamedSessions;
    admission: Admission;
    pipes: PipePool;
    spool: BodySpool;
    clock: ServerClock;
    newId: () => string;
  }) {
    this.#engine = o.engine;
    this.#sessions = o.sessions;
    this.#admission = o.admission;
    this.#pipes = o.pipes;
    this.#spool = o.spool;
    this.#clock = o.clock;
    this.#newId = o.newId;
  }

  /** Runs one query and hands its result to `deliver`; slot and session are held until that has returned. Throws QueryErrors. */
  async run(job: Job, deliver: (result: Result) => Promise<void>): Promise<void> {
    const { request } = job;
    const statement = await readStatement(
      request.query,
      job.body,
      Number(request.settings.get("max_query_size") ?? 0),
      {
        inSession: request.session !== null,
        readonly: job.readonly,
      },
    );
    job.onStatement(statement);
    if (statement.kind !== "insert") {
      await this.#admitted(job, statement, null, deliver);
      return;
    }
    const body = await this.#spool.write(statement.data, job.signal);
    try {
      await this.#admitted(job, statement, body.path, deliver);
    } finally {
      await body.remove();
    }
  }

  async #admitted(
    job: Job,
    statement: Statement,
    bodyPath: string | null,
    deliver: (result: Result) => Promise<void>,
  ): Promise<void> {
    const named = job.request.session === null ? null : this.#sessions.enter(job.request.session);
    try {
      const slot = await this.#slot(job);
      const session = named?.session ?? this.#engine.session();
      try {
        job.onAdmitted();
        await this.#inSession(job, session, statement, bodyPath, deliver);
      } finally {
        if (named === null) await session.close();
        slot.release();
      }
    } finally {
      named?.leave();
    }
  }

  /** Waiting for a slot is part of the query's time, as its caller sees it. */
  async #slot(job: Job): Promise<{ release(): void }> {
    const budget = budgetMs(job.request);
    if (budget === null) return this.#admission.enter(job.signal);
    const late = new AbortController();
    const timer = this.#clock.after(Math.max(0, job.arrivedMs + budget - this.#clock.nowMs()), () =>
      late.abort(timeout(budget)),
    );
    try {
      return await this.#admission.enter(AbortSignal.any([job.signal, late.signal]));
    } finally {
      timer.cancel();
    }
  }

  async #inSession(
    job: Job,
    session: EngineSession,
    statement: Statement,
    bodyPath: string | null,
    deliver: (result: Result) => Promise<void>,
  ): Promise<void> {
    const sql = statement.kind === "insert" ? insertSql(statement, bodyPath ?? "") : statement.sql;
    const count = await session.statementCount(sql);
    if (count > 1)
      throw QueryError.of(62, "Syntax error (Multi-statements are not allowed): send one statement per request.");
    if (count === 0) throw QueryError.of(62, "Empty query.");
    const mark = this.#newId();
    const settings = new Map(job.request.settings);
    settings.set("log_comment", mark);
    if (job.readonly) settings.set("readonly", "2");
    const budget = budgetMs(job.request);
    if (budget !== null) {
      const left = job.arrivedMs + budget - this.#clock.nowMs();
      if (left < 1) throw timeout(budget);
      settings.set("max_execution_time", (Math.floor(left) / 1000).toFixed(3));
    }
    const leave = await enterSession(session, job.request, settings);
    try {
      job.signal.throwIfAborted();
      await this.#execute(job, session, statement, sql, mark, bodyPath, deliver);
    } finally {
      await leave();
    }
  }

  async #execute(
    job: Job,
    session: EngineSession,
    statement: Statement,
    sql: string,
    mark: string,
    bodyPath: string | null,
    deliver: (result: Result) => Promise<void>,
  ): Promise<void> {
    const during = <T>(call: Promise<T>): Promise<T> => this.#engine.cancelable(call, mark, job.signal);
    const failed = (error: unknown): never => {
      throw fromEngine(error, bodyPath === null ? [] : [bodyPath]);
    };
    if (statement.kind === "insert") {
      const r = await during(session.insert(sql)).catch(failed);
      const stats = { ...none, writtenRows: r.rowsWritten, writtenBytes: r.bytesWritten, elapsedSeconds: r.elapsed };
      await deliver({ format: job.request.defaultFormat, chunks: nothing(), done: Promise.resolve(stats) });
      return;
    }
    const format = statement.format ?? job.request.defaultFormat;
    if (statement.kind === "other") {
      const r = await during(session.execute(sql, format)).catch(failed);
      const stats = { ...none, readRows: r.rowsRead, readBytes: r.bytesRead, elapsedSeconds: r.elapsed };
      await deliver({
        format,
        chunks: nothing(Buffer.from(r.bytes.buffer, r.bytes.byteOffset, r.bytes.byteLength)),
        done: Promise.resolve(stats),
      });
      return;
    }
    await this.#select(session, statement.select, sql, format, during, deliver);
  }

  async #select(
    session: EngineSession,
    select: string,
    original: string,
    format: string,
    during: <T>(call: Promise<T>) => Promise<T>,
    deliver: (result: Result) => Promise<void>,
  ): Promise<void> {
    const pipe = this.#pipes.take();
    const { stream, finish } = pipe.open();
    const done = during(session.execute(`${select}\nINTO OUTFILE ${literal(pipe.path)} TRUNCATE`, format))
      .catch((error: unknown) => {
        const mapped = fromEngine(error, [pipe.path]);
        // The text did not parse: ask again with the caller's own text, whose error does not speak of our clause.
        if (mapped.clickhouseCode !== 62) throw mapped;
        return session.execute(original, format).catch((own: unknown) => {
          throw fromEngine(own);
        });
      })
      .then((r): Stats => ({ ...none, readRows: r.rowsRead, readBytes: r.bytesRead, elapsedSeconds: r.elapsed }))
      .finally(finish);
    const settled = done.then(
      () => undefined,
      () => undefined,
    );
    try {
      await deliver({ format, chunks: stream as AsyncIterable<Buffer>, done });
    } finally {
      await settled;
      stream.destroy();
      this.#pipes.give(pipe);
    }
  }
}

const none: Stats = { readRows: 0, readBytes: 0, writtenRows: 0, writtenBytes: 0, elapsedSeconds: 0 };

// eslint-disable-next-line @typescript-eslint/require-await -- an async generator is the shape that readers expect
async function* nothing(...chunks: Buffer[]): AsyncGenerator<Buffer> {
  for (const chunk of chunks) if (chunk.length > 0) yield chunk;
}

function insertSql(statement: Extract<Statement, { kind: "insert" }>, path: string): string {
  const { head, settingsAt, format } = statement.insert;
  return `${head.slice(0, settingsAt)} FROM INFILE ${literal(path)} COMPRESSION 'none' ${head.slice(settingsAt)} FORMAT ${format}`;
}

function budgetMs(request: QueryRequest): number | null {
  const seconds = Number(request.settings.get("max_execution_time") ?? "0");
  return seconds > 0 ? seconds * 1000 : null;
}

const timeout = (budget: number): QueryError =>
  QueryError.of(
    159,
    `Timeout exceeded: the query waited for a free slot longer than its max_execution_time of ${budget} ms allows.`,
  );
