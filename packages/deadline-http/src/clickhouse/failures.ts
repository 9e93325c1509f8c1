import type { Failure } from "../call.js";
import { errorCode, errorText, isTlsError, provesNotConnected } from "../net-errors.js";
import { ResponseBodyError } from "./body-check.js";

/** What was seen of one attempt. */
export interface Seen {
  /** The transport is observed, so an attempt that was not handed to its socket is proved not-sent. */
  readonly watched: boolean;
  status: number | undefined;
  /** From the header `X-ClickHouse-Exception-Code`. */
  exceptionCode: number | undefined;
  /** The client's own limit, of time in which no byte moves, ran out. */
  idle: boolean;
}

/** What is known of the statement. */
export interface StatementFacts {
  readonly kind: "read" | "write";
  readonly carriesRows: boolean;
  /** ON CLUSTER: each server executes it, and what one of them answers says nothing of the others. */
  readonly onCluster: boolean;
  /** The body cannot be produced twice: only an attempt that provably never took from it may be followed by another. */
  readonly oneShotBody: boolean;
  /** The vendor client's own limit: socket inactivity. */
  readonly idleTimeoutMs: number;
}

/** Server limits: the statement ran, and may have left part of its rows. TIMEOUT_EXCEEDED, UNKNOWN_STATUS_OF_INSERT, DEADLOCK_AVOIDED. */
const timeLimitCodes = new Set([159, 319, 473]);

/** Faults of the moment, after which a read may go again. The last is REPLICA_IS_NOT_IN_QUORUM. */
const retryableReadCodes = new Set([3, 202, 209, 210, 236, 279, 425, 999, 1000, 289]);

/** UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE: another insert's quorum is open; this one was not begun. */
const quorumBusyCode = 286;

/**
 * Raised before a statement runs: unknown table, database or setting; read-only; user, password, address, rights;
 * too many queries; session; and the quorum code above.
 */
const beforeExecution = new Set([60, 81, 115, 164, 192, 193, 194, 195, 202, quorumBusyCode, 372, 373, 497, 516]);

/** Raised by analysis, hence before execution, unless the statement carries rows whose expressions are parsed on the way: no such column, unknown function, unknown identifier, syntax error. */
const inAnalysis = new Set([16, 46, 47, 62]);

/**
 * A materialized view is analysed when the first rows reach it, and by then the table itself may hold them; likewise the
 * shard of a Distributed table when another one has its rows.
 */
const amidExecution = /while pushing to view|insertion status:/i;

/** Only what was read whole is judged: a code from the headers, with a body that broke, does not tell where it was raised. */
function isRefusal(code: number, error: unknown, statement: StatementFacts): boolean {
  if (serverCodeOf(error) !== code || amidExecution.test(errorText(error)) || statement.onCluster) return false;
  return beforeExecution.has(code) || (inAnalysis.has(code) && !statement.carriesRows);
}

/** Maps an error of the vendor client, or of the body check, to what the server may have done and what may follow. */
export function classify(error: unknown, sent: boolean, seen: Seen, statement: StatementFacts): Failure {
  if (error instanceof ResponseBodyError) return bodyFailure(error, seen, statement);
  if (seen.idle || isVendorTimeout(error)) {
    const ms = statement.idleTimeoutMs;
    const bound = { name: "the client's request_timeout (no byte moved)", ms, knobs: { request_timeout: ms } };
    return { text: "", outcome: sent ? "unknown" : "not-sent", retry: false, timedOut: true, bound };
  }
  const code = seen.exceptionCode ?? serverCodeOf(error);
  if (code !== undefined || (seen.status !== undefined && !isSuccess(seen.status))) {
    return answered(error, code, seen, statement);
  }
  const notSent = seen.watched ? !sent : provesNotConnected(error);
  if (notSent) {
    const untouched = !statement.oneShotBody || seen.watched;
    const retry = untouched && !isTlsError(error) && errorCode(error) !== undefined;
    return { text: `the request could not be sent: ${errorText(error)}`, outcome: "not-sent", retry };
  }
  return broken(`the connection broke: ${errorText(error)}`, statement, seen, !isTlsError(error));
}

const isSuccess = (status: number): boolean => status >= 200 && status < 300;

function broken(text: string, statement: StatementFacts, seen: Seen, retry: boolean): Failure {
  return { text, outcome: "unknown", retry: retry && mayRepeat(statement), httpStatus: seen.status };
}

const mayRepeat = (statement: StatementFacts): boolean => statement.kind === "read" && !statement.oneShotBody;

/** The server answered an error, in the status or in the headers. */
function answered(error: unknown, code: number | undefined, seen: Seen, statement: StatementFacts): Failure {
  const httpStatus = seen.status;
  const where = [
    ...(httpStatus === undefined ? [] : [`HTTP ${httpStatus}`]),
    ...(code === undefined ? [] : [`code ${code}${typeName(error)}`]),
  ].join(", ");
  const undecoded = (errorCode(error) ?? "").startsWith("Z_") || /encoding|decompress/i.test(errorText(error));
  const detail = undecoded ? `its body could not be decoded (${errorText(error)})` : firstLine(errorText(error));
  const common = { serverCode: code, httpStatus };
  if ((code !== undefined && timeLimitCodes.has(code)) || (code === undefined && httpStatus === 408)) {
    const text = `the server's own time limit ended the statement (${where}): ${detail}`;
    return { text, outcome: "unknown", retry: false, timedOut: true, ...common };
  }
  const text = `the server answered ${where}: ${detail}`;
  if (statement.kind === "read") {
    const fault = code === undefined ? (httpStatus ?? 0) >= 500 : retryableReadCodes.has(code);
    const clientError = httpStatus !== undefined && httpStatus >= 400 && httpStatus < 500;
    return { text, outcome: "refused", retry: fault && !clientError && mayRepeat(statement), ...common };
  }
  const refused = code !== undefined && isRefusal(code, error, statement);
  return {
    text,
    outcome: refused ? "refused" : "unknown",
    retry: refused && code === quorumBusyCode && !statement.oneShotBody,
    ...common,
  };
}

/** The headers were good, the body was not: execution had begun. */
function bodyFailure(error: ResponseBodyError, seen: Seen, statement: StatementFacts): Failure {
  const { serverCode } = error;
  const common = { serverCode, httpStatus: seen.status };
  if (serverCode === undefined) return broken(error.message, statement, seen, true);
  if (timeLimitCodes.has(serverCode)) {
    const text = `the server's own time limit ended the statement (code ${serverCode}): ${error.message}`;
    return { text, outcome: "unknown", retry: false, timedOut: true, ...common };
  }
  const read = statement.kind === "read";
  return {
    text: error.message,
    outcome: read ? "refused" : "unknown",
    retry: read && retryableReadCodes.has(serverCode) && mayRepeat(statement),
    ...common,
  };
}

/** The vendor's ClickHouseError has the number as text in `code` and the name in `type`; its class may be of another copy. */
function serverCodeOf(error: unknown): number | undefined {
  if (typeof error !== "object" || error === null || !("code" in error) || !("type" in error)) return undefined;
  return typeof error.code === "string" && /^\d+$/.test(error.code) ? Number(error.code) : undefined;
}

const typeName = (error: unknown): string =>
  typeof error === "object" && error !== null && "type" in error && typeof error.type === "string"
    ? ` ${error.type}`
    : "";

const firstLine = (text: string): string => (text.split("\n", 1)[0] ?? "").slice(0, 500);

const isVendorTimeout = (error: unknown): boolean => error instanceof Error && error.message === "Timeout error.";
