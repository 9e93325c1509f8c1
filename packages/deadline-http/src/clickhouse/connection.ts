import { randomUUID } from "node:crypto";
import { Readable } from "node:stream";
import type { ClickHouseSettings, PingResult } from "@clickhouse/client";
import { runCall, type Attempt as CallAttempt } from "../call.js";
import type { Clock } from "../clock.js";
import { CheckedBody } from "./body.js";
import { bodyCheck, noCheck, type BodyFacts } from "./body-check.js";
import { classify, type Seen, type StatementFacts } from "./failures.js";
import { capMs, settingText, waitsForEnd, withDefaults, type Attempt } from "./settings.js";
import { carriesRows, kindOf } from "./statement.js";
import { watched, type Watcher } from "./transport.js";
import type { VendorConnection, VendorParams, VendorResult } from "./vendor.js";

export interface ConnectionRules {
  readonly clock: Clock;
  readonly requestTimeoutMs: number | null;
  readonly maxAttempts: number;
  readonly settings: ((attempt: Attempt) => ClickHouseSettings) | null;
  readonly idleTimeoutMs: number;
}

/** What becomes of the body of a good answer: given to the caller to read, or read here to its end. */
type BodyUse = "hand-over" | "drain";

/** The vendor's connection with every statement run under the scopes in force. */
export function boundConnection(inner: VendorConnection, rules: ConnectionRules): VendorConnection {
  const run = (verb: "query" | "exec", params: VendorParams, use: BodyUse): Promise<VendorResult> =>
    new Statement(inner, rules, verb, params, use).run();
  const drained = async (params: VendorParams): Promise<Omit<VendorResult, "stream">> => {
    // Through exec, which unlike command and insert shows the body: an exception may be in it.
    const { query_id, response_headers, http_status_code, summary } = await run("exec", params, "drain");
    return { query_id, response_headers, http_status_code, summary };
  };
  return {
    query: (params) => run("query", params, "hand-over"),
    exec: (params) => run("exec", params, "hand-over"),
    command: drained,
    insert: drained,
    ping: (params) => ping(inner, rules, params),
    close: () => inner.close(),
  };
}

const limitOf = (rules: ConnectionRules) =>
  rules.requestTimeoutMs === null
    ? null
    : { name: "requestTimeoutMs", ms: rules.requestTimeoutMs, knobs: { requestTimeoutMs: rules.requestTimeoutMs } };

class Statement {
  readonly #facts: StatementFacts;
  readonly #settings: ClickHouseSettings;
  #seen: Seen = { watched: false, status: undefined, exceptionCode: undefined };

  constructor(
    readonly inner: VendorConnection,
    readonly rules: ConnectionRules,
    readonly verb: "query" | "exec",
    readonly params: VendorParams,
    readonly use: BodyUse,
  ) {
    this.#facts = {
      kind: kindOf(params.query),
      carriesRows: params.values !== undefined || carriesRows(params.query),
      oneShotBody: params.values instanceof Readable,
      idleTimeoutMs: rules.idleTimeoutMs,
    };
    this.#settings = withDefaults(params.clickhouse_settings);
  }

  run(): Promise<VendorResult> {
    const { rules } = this;
    return runCall({
      clock: rules.clock,
      limit: limitOf(rules),
      signal: this.params.abort_signal ?? null,
      maxAttempts: rules.maxAttempts,
      attempt: (attempt) => this.#attempt(attempt),
      classify: (error, sent) => classify(error, sent, this.#seen, this.#facts),
    });
  }

  async #attempt(attempt: CallAttempt): Promise<VendorResult> {
    const { connection, seen } = watchedOr(this.inner, {
      onConnected: () => this.#onConnected(attempt),
      ended: () => attempt.signal.aborted,
      onAnswer: (status, headers) => {
        seen.status = status;
        const code = Number(headers["x-clickhouse-exception-code"]);
        if (Number.isInteger(code) && code > 0) seen.exceptionCode = code;
      },
    });
    this.#seen = seen;
    // Without a socket to watch, this is as late as it gets.
    const early = seen.watched ? {} : this.#onConnected(attempt);
    if (!early) throw new Error("the attempt was ended before it was sent");
    const result = await connection[this.verb]({
      ...this.params,
      clickhouse_settings: { ...this.#settings, ...early },
      abort_signal: attempt.signal,
      query_id: this.#queryId(attempt.number),
    });
    return this.#withBody(attempt, result);
  }

  /** The attempt goes out now: reads the deadline a last time and computes what depends on it. */
  #onConnected(attempt: CallAttempt): Record<string, string> | null {
    try {
      const msLeft = attempt.start();
      const { kind } = this.#facts;
      const own = this.rules.settings?.({ msLeft, kind, number: attempt.number }) ?? {};
      const cap = capMs(own);
      if (cap !== undefined && cap > msLeft) {
        attempt.withhold(`max_execution_time of ${cap} ms would end after the ${msLeft} ms left`);
        return null;
      }
      attempt.markSent();
      const extra: Record<string, string> = {};
      for (const [name, value] of Object.entries(own)) if (value !== undefined) extra[name] = settingText(value);
      return extra;
    } catch (error) {
      attempt.fail(error);
      return null;
    }
  }

  /** A query id of its own for every attempt: the server refuses one that may still run. */
  #queryId(number: number): string {
    const given = this.params.query_id;
    if (!given) return randomUUID();
    return number === 1 ? given : `${given}-${number}`;
  }

  async #withBody(attempt: CallAttempt, result: VendorResult): Promise<VendorResult> {
    const asItCame = this.params.ignore_error_response === true || this.params.decompress_response_stream === false;
    const body = new CheckedBody(result.stream, asItCame ? noCheck : bodyCheck(this.#bodyFacts(result)));
    const stop = (): void => void body.destroy();
    attempt.signal.addEventListener("abort", stop, { once: true });
    // Ended between the answer's headers and here: the listener comes too late, and nobody reads this body.
    if (attempt.signal.aborted) stop();
    try {
      if (this.use === "drain") await body.drained();
      else if (waitsForEnd(this.#settings)) await body.filled();
    } finally {
      attempt.signal.removeEventListener("abort", stop);
    }
    if (this.use === "hand-over") {
      const held = attempt.hold((error) => body.destroy(error));
      body.translate = (error) => held.failed(error);
      body.once("close", () => held.release());
    }
    return { ...result, stream: body };
  }

  #bodyFacts(result: VendorResult): BodyFacts {
    const headers = result.response_headers ?? {};
    const tag = headers["x-clickhouse-exception-tag"];
    const format = /\bFORMAT\s+(\w+)\s*;?\s*$/i.exec(this.params.query)?.[1] ?? null;
    return {
      format,
      tag: typeof tag === "string" ? tag : undefined,
      framed: result.response_headers === undefined || "content-length" in headers || "transfer-encoding" in headers,
      write: this.#facts.kind === "write",
      exceptionsAreData: waitsForEnd(this.#settings) && /exception|error/i.test(this.params.query),
    };
  }
}

function watchedOr(inner: VendorConnection, watcher: Watcher): { connection: VendorConnection; seen: Seen } {
  const connection = watched(inner, watcher);
  const seen: Seen = { watched: connection !== null, status: undefined, exceptionCode: undefined };
  return { connection: connection ?? inner, seen };
}

/** As the vendor's: never throws, the error is in the result. One attempt. */
async function ping(
  inner: VendorConnection,
  rules: ConnectionRules,
  params: Parameters<VendorConnection["ping"]>[0],
): Promise<PingResult> {
  const facts: StatementFacts = {
    kind: "read",
    carriesRows: false,
    oneShotBody: false,
    idleTimeoutMs: rules.idleTimeoutMs,
  };
  let seen: Seen = { watched: false, status: undefined, exceptionCode: undefined };
  try {
    return await runCall({
      clock: rules.clock,
      limit: limitOf(rules),
      signal: params.abort_signal ?? null,
      maxAttempts: 1,
      attempt: async (attempt) => {
        const start = (): Record<string, string> | null => {
          try {
            attempt.start();
            attempt.markSent();
            return {};
          } catch (error) {
            attempt.fail(error);
            return null;
          }
        };
        const found = watchedOr(inner, {
          onConnected: start,
          ended: () => attempt.signal.aborted,
          onAnswer: (status) => (found.seen.status = status),
        });
        seen = found.seen;
        if (!seen.watched) start();
        const answer = await found.connection.ping({ ...params, abort_signal: attempt.signal });
        if (!answer.success) throw answer.error;
        return answer;
      },
      classify: (error, sent) => classify(error, sent, seen, facts),
    });
  } catch (error) {
    return { success: false, error: error instanceof Error ? error : new Error(String(error)) };
  }
}
