import { randomUUID } from "node:crypto";
import { Readable } from "node:stream";
import type { ClickHouseSettings, PingResult } from "@clickhouse/client";
import { runCall, type Attempt as CallAttempt } from "../call.js";
import type { Clock } from "../clock.js";
import { CheckedBody } from "./body.js";
import { bodyCheck, noCheck, type BodyFacts } from "./body-check.js";
import { classify, type Seen, type StatementFacts } from "./failures.js";
import { capMs, settingText, waitsForEnd, withDefaults, type Attempt } from "./settings.js";
import { carriesRows, kindOf, onCluster } from "./statement.js";
import { Transport, type Watcher } from "./transport.js";
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
  const wire = { inner, transport: Transport.over(inner) };
  const run = (verb: "query" | "exec", params: VendorParams, use: BodyUse): Promise<VendorResult> =>
    new Statement(wire, rules, verb, params, use).run();
  const drained = async (params: VendorParams): Promise<Omit<VendorResult, "stream">> => {
    // Through exec, which unlike command and insert shows the body: an exception may be in it, compressed too, even where
    // nobody asked for that.
    const readable = { ...params, decompress_response_stream: true };
    const { query_id, response_headers, http_status_code, summary } = await run("exec", readable, "drain");
    return { query_id, response_headers, http_status_code, summary };
  };
  return {
    query: (params) => run("query", params, "hand-over"),
    exec: (params) => run("exec", params, "hand-over"),
    command: drained,
    insert: drained,
    ping: (params) => ping(wire, rules, params),
    close: () => inner.close(),
  };
}

const limitOf = (rules: ConnectionRules) =>
  rules.requestTimeoutMs === null
    ? null
    : { name: "requestTimeoutMs", ms: rules.requestTimeoutMs, knobs: { requestTimeoutMs: rules.requestTimeoutMs } };

/** The vendor's connection, and the same watched; without the latter less can be proved. */
interface Wire {
  readonly inner: VendorConnection;
  readonly transport: Transport | null;
}

const nothingSeen = (wire: Wire): Seen => ({
  watched: wire.transport !== null,
  status: undefined,
  exceptionCode: undefined,
  idle: false,
});

/** Runs one attempt on the wire, watched where that is possible. */
function onWire<T>(
  wire: Wire,
  attempt: CallAttempt,
  watcher: Watcher,
  use: (connection: VendorConnection, signal: { readonly abort_signal?: AbortSignal }) => Promise<T>,
): Promise<T> {
  const { inner, transport } = wire;
  if (!transport) return use(inner, { abort_signal: attempt.signal });
  return transport.run(
    watcher,
    (destroy) => attempt.onEnd(destroy),
    (connection) => use(connection, {}),
  );
}

class Statement {
  readonly #facts: StatementFacts;
  readonly #settings: ClickHouseSettings;
  readonly #signal: AbortSignal | null;
  /** What the vendor is given; the caller's signal is watched here, in its stead. */
  readonly #params: Omit<VendorParams, "abort_signal">;
  #seen: Seen;

  constructor(
    readonly wire: Wire,
    readonly rules: ConnectionRules,
    readonly verb: "query" | "exec",
    readonly params: VendorParams,
    readonly use: BodyUse,
  ) {
    this.#facts = {
      kind: kindOf(params.query),
      carriesRows: params.values !== undefined || carriesRows(params.query),
      onCluster: onCluster(params.query),
      oneShotBody: params.values instanceof Readable,
      idleTimeoutMs: rules.idleTimeoutMs,
    };
    this.#settings = withDefaults(params.clickhouse_settings);
    const { abort_signal, ...rest } = params;
    this.#signal = abort_signal ?? null;
    this.#params = rest;
    this.#seen = nothingSeen(wire);
  }

  run(): Promise<VendorResult> {
    const { rules } = this;
    return runCall({
      clock: rules.clock,
      limit: limitOf(rules),
      signal: this.#signal,
      maxAttempts: rules.maxAttempts,
      attempt: (attempt) => this.#attempt(attempt),
      classify: (error, sent) => classify(error, sent, this.#seen, this.#facts),
    });
  }

  async #attempt(attempt: CallAttempt): Promise<VendorResult> {
    const seen = nothingSeen(this.wire);
    this.#seen = seen;
    const watcher: Watcher = {
      onConnected: () => this.#onConnected(attempt),
      permit: () => attempt.permit(),
      ended: () => attempt.ended,
      onIdle: () => (seen.idle = true),
      onAnswer: (status, headers) => {
        seen.status = status;
        const code = Number(headers["x-clickhouse-exception-code"]);
        if (Number.isInteger(code) && code > 0) seen.exceptionCode = code;
      },
    };
    // Without a socket to watch, this is as late as it gets.
    const early = seen.watched ? {} : this.#onConnected(attempt);
    if (!early) throw new Error("the attempt was ended before it was sent");
    if (!seen.watched) attempt.markSent();
    const params = {
      ...this.#params,
      clickhouse_settings: { ...this.#settings, ...early },
      query_id: this.#queryId(attempt.number),
    };
    const result = await onWire(this.wire, attempt, watcher, (connection, signal) =>
      connection[this.verb]({ ...params, ...signal }),
    );
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
    // Ended between the answer's headers and here, it is not told any more, and nobody reads this body.
    if (attempt.ended) body.destroy();
    attempt.onEnd((error) => body.destroy(error));
    if (this.use === "drain") await body.drained();
    else if (waitsForEnd(this.#settings)) await body.filled();
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

/** As the vendor's: never throws, the error is in the result. One attempt. */
async function ping(
  wire: Wire,
  rules: ConnectionRules,
  params: Parameters<VendorConnection["ping"]>[0],
): Promise<PingResult> {
  const { idleTimeoutMs } = rules;
  const facts: StatementFacts = {
    kind: "read",
    carriesRows: false,
    onCluster: false,
    oneShotBody: false,
    idleTimeoutMs,
  };
  const seen = nothingSeen(wire);
  const attempt = async (one: CallAttempt): Promise<PingResult> => {
    const watcher: Watcher = {
      onConnected: () => pingConnected(one),
      permit: () => one.permit(),
      ended: () => one.ended,
      onIdle: () => (seen.idle = true),
      onAnswer: (status) => (seen.status = status),
    };
    if (!seen.watched && watcher.onConnected()) one.markSent();
    const answer = await onWire(wire, one, watcher, (connection, signal) => {
      return connection.ping({ select: params.select, ...signal });
    });
    if (!answer.success) throw answer.error;
    return answer;
  };
  try {
    return await runCall({
      clock: rules.clock,
      limit: limitOf(rules),
      signal: params.abort_signal ?? null,
      maxAttempts: 1,
      attempt,
      classify: (error, sent) => classify(error, sent, seen, facts),
    });
  } catch (error) {
    return { success: false, error: error instanceof Error ? error : new Error(String(error)) };
  }
}

function pingConnected(attempt: CallAttempt): Record<string, string> | null {
  try {
    attempt.start();
    return {};
  } catch (error) {
    attempt.fail(error);
    return null;
  }
}
