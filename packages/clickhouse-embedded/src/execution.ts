import { fromEngine, QueryError } from "./clickhouse-errors.js";
import type { Engine, EngineSession } from "./engine.js";
import type { NativeInsertResult, NativeResult } from "./native.js";
import type { PipePool } from "./pipes.js";
import { identifier, literal } from "./settings-sql.js";
import type { Statement } from "./statement.js";

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
 */
export type Result = { readonly format: string; readonly chunks: AsyncIterable<Buffer>; readonly done: Promise<Stats> };

/** Takes a result while session and slot are still held. What it leaves unread is cut. */
export type Deliver = (result: Result) => Promise<void>;

/** A statement about to run in a session that has its settings. */
export type Execution = {
  readonly statement: Statement;
  readonly session: EngineSession;
  /** The session's log_comment: by it the query is found when it must end early. */
  readonly mark: string;
  /** Where the body of an INSERT lies. */
  readonly bodyPath: string | null;
  readonly defaultFormat: string;
  readonly signal: AbortSignal;
};

/** The text that the engine gets, apart from the INTO OUTFILE of results: it is this whose statements are counted. */
export function engineSql(statement: Statement, bodyPath: string | null): string {
  if (statement.kind !== "insert") return statement.sql;
  const { head, settingsAt, format } = statement.insert;
  const file = `FROM INFILE ${literal(bodyPath ?? "")} COMPRESSION 'none'`;
  return `${head.slice(0, settingsAt)} ${file} ${head.slice(settingsAt)} FORMAT ${identifier(format)}`;
}

/** Runs statements and hands over their results. */
export class Executor {
  readonly #engine: Engine;
  readonly #pipes: PipePool;

  constructor(engine: Engine, pipes: PipePool) {
    this.#engine = engine;
    this.#pipes = pipes;
  }

  /** Returns when the engine is done with the statement, whatever came of it, so that the session may be used again. */
  async run(x: Execution, deliver: Deliver): Promise<void> {
    const { statement, session, defaultFormat } = x;
    switch (statement.kind) {
      case "insert":
      case "insert-select": {
        // The entry for inserts is the one that says how many rows were written.
        const r = await this.#wait(x, session.insert(engineSql(statement, x.bodyPath)));
        await deliver({ format: defaultFormat, chunks: pieces(), done: Promise.resolve(written(r)) });
        return;
      }
      case "other": {
        const format = statement.format ?? defaultFormat;
        const r = await this.#wait(x, session.execute(statement.engineSql, format));
        const bytes = Buffer.from(r.bytes.buffer, r.bytes.byteOffset, r.bytes.byteLength);
        await deliver({ format, chunks: pieces(bytes), done: Promise.resolve(read(r)) });
        return;
      }
      case "select":
        await this.#select(x, statement.sql, statement.select, statement.format ?? defaultFormat, deliver);
    }
  }

  async #wait<T>(x: Execution, call: Promise<T>, signal = x.signal): Promise<T> {
    try {
      return await this.#engine.cancelable(call, x.mark, signal);
    } catch (error) {
      throw fromEngine(error, x.bodyPath === null ? [] : [x.bodyPath]);
    }
  }

  async #select(x: Execution, sql: string, select: string, format: string, deliver: Deliver): Promise<void> {
    const pipe = this.#pipes.take();
    const opened = pipe.open();
    const { stream } = opened;
    // A reader that leaves early, for whatever reason, must not leave a query behind that waits for it.
    const left = new AbortController();
    const signal = AbortSignal.any([x.signal, left.signal]);
    const toPipe = `${select}\nINTO OUTFILE ${literal(pipe.path)} TRUNCATE`;
    const done = this.#wait(x, x.session.execute(toPipe, format), signal)
      .catch(async (error: unknown) => {
        // It did not parse: the error of the caller's own text does not speak of our clause.
        if (error instanceof QueryError && error.clickhouseCode === 62)
          await this.#wait(x, x.session.execute(sql, format), signal);
        // A text that parses without the clause has no result here; an empty one would be a lie.
        throw error;
      })
      .then(read)
      .finally(() => opened.finish());
    const settled = done.then(
      () => undefined,
      () => undefined,
    );
    try {
      await deliver({ format, chunks: stream as AsyncIterable<Buffer>, done });
    } finally {
      stream.destroy();
      left.abort();
      await settled;
      await opened.close();
      this.#pipes.give(pipe);
    }
  }
}

const none: Stats = { readRows: 0, readBytes: 0, writtenRows: 0, writtenBytes: 0, elapsedSeconds: 0 };
const read = (r: NativeResult): Stats => ({
  ...none,
  readRows: r.rowsRead,
  readBytes: r.bytesRead,
  elapsedSeconds: r.elapsed,
});
const written = (r: NativeInsertResult): Stats => ({
  readRows: r.rowsWritten,
  readBytes: r.bytesWritten,
  writtenRows: r.rowsWritten,
  writtenBytes: r.bytesWritten,
  elapsedSeconds: r.elapsed,
});

// eslint-disable-next-line @typescript-eslint/require-await -- readers expect an async generator
async function* pieces(...chunks: Buffer[]): AsyncGenerator<Buffer> {
  for (const chunk of chunks) if (chunk.length > 0) yield chunk;
}
