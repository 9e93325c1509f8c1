import type { Failure } from "../call.js";
import { errorCode, errorText, isTlsError, provesNotConnected } from "../net-errors.js";
import { verdictOf, type Verdict } from "./answers.js";
import type { Run } from "./handler.js";
import { isServiceError } from "./vendor-error.js";

/** What is known of the command. */
export interface CommandFacts {
  /** Its body can be produced again: it is no stream, or nothing was taken from it. */
  readonly repeatable: boolean;
}

const readMethods = new Set(["GET", "HEAD"]);

/** Maps an error of the vendor's pipeline to what the service may have done and what may follow. */
export function classify(error: unknown, sent: boolean, run: Run | null, facts: CommandFacts): Failure {
  const failure = judge(error, sent, run);
  return failure.retry && !facts.repeatable
    ? { ...failure, retry: false, text: `${failure.text} (its body is a stream and cannot be sent twice)` }
    : failure;
}

function judge(error: unknown, sent: boolean, run: Run | null): Failure {
  const read = readMethods.has(run?.request?.method ?? "");
  if (run?.status !== undefined && isServiceError(error)) return answered(error, run.status, read);
  if (run?.status !== undefined && !isSuccess(run.status)) return undecoded(error, run.status, read);
  const limit = vendorLimit(error);
  // An address that is not there proves something of one request only, not of one before a redirect.
  const notSent = !sent || (run?.watched === false && run.requests <= 1 && provesNotConnected(error));
  if (limit) return { ...limit, outcome: notSent ? "not-sent" : "unknown" };
  // An error without a code is about the request itself: it would fail the same way again.
  const passing = errorCode(error) !== undefined && !isTlsError(error);
  if (notSent) {
    return { text: `the request could not be sent: ${errorText(error)}`, outcome: "not-sent", retry: passing };
  }
  const what = run?.status === undefined ? "the connection broke" : "the answer's body broke";
  const retry = read && (passing || run?.status !== undefined) && !isTlsError(error);
  return { text: `${what}: ${errorText(error)}`, outcome: "unknown", retry, httpStatus: run?.status };
}

const isSuccess = (status: number): boolean => status >= 200 && status < 300;

interface ServiceError {
  readonly name: string;
  readonly message: string;
  readonly $metadata: { readonly clockSkewCorrected?: unknown };
}

const maySendAgain: Readonly<Record<Verdict, { read: boolean; write: boolean }>> = {
  "time-limit": { read: false, write: false },
  throttled: { read: true, write: true },
  skewed: { read: true, write: true },
  refused: { read: false, write: false },
  fault: { read: true, write: false },
  other: { read: false, write: false },
};

const beforeExecution = new Set<Verdict>(["throttled", "skewed", "refused"]);

function answered(error: ServiceError, status: number, read: boolean): Failure {
  const verdict = verdictOf(status, error.name, error.$metadata.clockSkewCorrected === true);
  const inside = isSuccess(status) ? ", in its body" : "";
  const where = `HTTP ${status}${inside}, ${error.name}`;
  const detail = firstLine(errorText(error));
  const timedOut = verdict === "time-limit";
  return {
    text: timedOut
      ? `the service's own time limit ended the request (${where}): ${detail}`
      : `the service answered ${where}: ${detail}`,
    outcome: beforeExecution.has(verdict) || (read && !timedOut) ? "refused" : "unknown",
    retry: maySendAgain[verdict][read ? "read" : "write"],
    timedOut,
    httpStatus: status,
  };
}

/** An error status whose body could not be read or made sense of: the status alone is known. */
function undecoded(error: unknown, status: number, read: boolean): Failure {
  const verdict = verdictOf(status, "", false);
  const timedOut = verdict === "time-limit";
  return {
    text: `the service answered HTTP ${status}, and its body could not be read: ${firstLine(errorText(error))}`,
    outcome: beforeExecution.has(verdict) || (read && !timedOut) ? "refused" : "unknown",
    retry: maySendAgain[verdict][read ? "read" : "write"],
    timedOut,
    httpStatus: status,
  };
}

const firstLine = (text: string): string => (text.split("\n", 1)[0] ?? "").slice(0, 500);

/**
 * The time limits of the SDK's own transport. It calls broken connections "TimeoutError" too; those have the code of the
 * system call that failed, while its own have none, or one without a system call.
 */
function vendorLimit(error: unknown): Omit<Failure, "outcome"> | null {
  if (!(error instanceof Error) || error.name !== "TimeoutError" || "syscall" in error) return null;
  const code = errorCode(error);
  if (code !== undefined && code !== "ETIMEDOUT") return null;
  const ms = Number(/(\d+) ms/.exec(error.message)?.[1]);
  const knob = /requestTimeout/.test(error.message)
    ? "requestTimeout"
    : /establish a connection/.test(error.message)
      ? "connectionTimeout"
      : "socketTimeout";
  const failure = { text: errorText(error), retry: false, timedOut: true };
  if (!Number.isFinite(ms)) return failure;
  return { ...failure, bound: { name: `the client's ${knob}`, ms, knobs: { [`requestHandler.${knob}`]: ms } } };
}
