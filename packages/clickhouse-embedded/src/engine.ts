import type { Native, NativeConnection, NativeInsertResult, NativeResult } from "./native.js";
import { literal } from "./settings-sql.js";
import type { ServerClock } from "./system-clock.js";

const killAgainMs = 50;

/** One connection: its settings, current database and temporary tables are its own. One call at a time. */
export class EngineSession {
  readonly #native: Native;
  readonly #connection: NativeConnection;
  #pending: Promise<unknown> = Promise.resolve();
  #closed = false;

  constructor(native: Native, connection: NativeConnection) {
    this.#native = native;
    this.#connection = connection;
  }

  #track<T>(call: Promise<T>): Promise<T> {
    this.#pending = call.then(
      () => undefined,
      () => undefined,
    );
    return call;
  }

  /** How many statements the engine's own parser sees. A text that it cannot read counts as one. */
  async statementCount(sql: string): Promise<number> {
    return (await this.#track(this.#native.DurableClassifyAsync(this.#connection, sql, null))).statementCount;
  }

  execute(sql: string, format = "TabSeparated"): Promise<NativeResult> {
    return this.#track(this.#native.QueryAsyncConnection(this.#connection, sql, format));
  }

  /** An INSERT that reads its data from a file. The raw entry with no inline data is the one that reports what was written. */
  insert(sql: string): Promise<NativeInsertResult> {
    return this.#track(this.#native.InsertRawAsyncConnection(this.#connection, sql, Buffer.alloc(0), false));
  }

  /** Closes once the call that runs has ended: closing under it would abort the engine. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#pending;
    this.#native.CloseConnection(this.#connection);
  }
}

/** The engine of this process: one data directory. */
export class Engine {
  readonly #native: Native;
  readonly #directory: string;
  readonly #arguments: string[];
  readonly #clock: ServerClock;
  readonly #control: EngineSession;

  /** Opens the directory; throws the engine's own error when it cannot. */
  constructor(o: { native: Native; directory: string; arguments?: readonly string[]; clock: ServerClock }) {
    this.#native = o.native;
    this.#directory = o.directory;
    this.#arguments = [...(o.arguments ?? [])];
    this.#clock = o.clock;
    // Kept open for good: it holds the directory between requests, and kills need a session that is never busy.
    this.#control = this.session();
  }

  session(): EngineSession {
    return new EngineSession(this.#native, this.#native.CreateConnection(this.#directory, this.#arguments));
  }

  /**
   * Waits for a call, and when the signal fires meanwhile ends its query in the engine. Settles when the *engine* is done with the call, so
   * that the session may be closed. The kill is repeated: a query that has only just started is not in the list of processes yet.
   */
  async cancelable<T>(call: Promise<T>, mark: string, signal: AbortSignal): Promise<T> {
    let settled = false;
    const kill = (): void => {
      if (settled) return;
      void this.#kill(mark).then(() => settled || this.#clock.after(killAgainMs, kill));
    };
    if (signal.aborted) kill();
    else signal.addEventListener("abort", kill, { once: true });
    try {
      return await call;
    } finally {
      settled = true;
      signal.removeEventListener("abort", kill);
    }
  }

  /** Never SYNC: that waits for the victim's session, which waits for us. */
  async #kill(mark: string): Promise<void> {
    await this.#control
      .execute(`KILL QUERY WHERE Settings['log_comment'] = ${literal(mark)} ASYNC`)
      .catch(() => undefined);
  }

  async close(): Promise<void> {
    await this.#control.close();
  }
}
