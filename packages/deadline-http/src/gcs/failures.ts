import type { Failure } from "../call.js";
import { errorCode, isTlsError } from "../net-errors.js";
import type { VendorError } from "./redact.js";
import type { Send } from "./send.js";

/** What is known of a request. */
export interface RequestFacts {
  /** It changes nothing that anyone can see. */
  readonly read: boolean;
  /** The `timeout` that the Storage was made with. */
  readonly timeoutMs: number | undefined;
}

/**
 * Answers to a write that come before it is executed. An object's content and metadata change as a whole or not at all,
 * so an answer that says why the request cannot be carried out says that nothing was.
 */
const beforeExecution = new Map<number, string>([
  [304, "a condition on the generation did not hold"],
  [400, "the request, its metadata or its checksum was found invalid; the object is made only after that check"],
  [401, "no valid credentials"],
  [403, "not allowed, billing or retention included"],
  [404, "no such bucket, object or upload session"],
  [405, "the method is not allowed here"],
  [409, "the name is taken, or a bucket is not empty"],
  [411, "the length of the body is missing"],
  [412, "a precondition did not hold"],
  [413, "the body is too large"],
  [416, "the range of an upload session does not fit"],
  [429, "the rate limit is checked before all else"],
]);

const isSuccess = (status: number): boolean => status >= 200 && status < 300;

const busy = new Set(["rateLimitExceeded", "userRateLimitExceeded"]);

/** Maps an error of the vendor to what the server may have done and what may follow. */
export function classify(error: VendorError, sent: boolean, send: Send, facts: RequestFacts): Failure {
  const { status } = send;
  const text = firstLine(error.message);
  const code = typeof error.code === "number" ? error.code : undefined;
  if (send.unauthorized && !send.connected) {
    // A refused credential will be refused again; a token endpoint that could not be reached may be reached later.
    const retry = !sent && isNetworkCode(error.code) && !isTlsError(error);
    return { text: `no credentials for the request: ${text}`, outcome: sent ? "unknown" : "not-sent", retry };
  }
  const answered = code ?? (status !== undefined && !isSuccess(status) ? status : undefined);
  if (answered !== undefined) return answer(answered, text, error, send, facts);
  if (/^(?:network timeout at|Response timeout while)/.test(error.message)) {
    const ms = facts.timeoutMs ?? 0;
    const bound = { name: "the client's timeout", ms, knobs: { timeout: ms } };
    return { text, outcome: sent ? "unknown" : "not-sent", retry: false, timedOut: true, bound };
  }
  if (!sent || neverMade(error, send)) {
    const retry = send.seen && !isTlsError(error);
    return { text: `the request could not be sent: ${text}`, outcome: "not-sent", retry };
  }
  return {
    text: send.flaw ? text : `the connection broke: ${text}`,
    outcome: "unknown",
    retry: facts.read && !isTlsError(error),
    httpStatus: status,
  };
}

/** Node refuses a header or an address before there is a request. */
const neverMade = (error: VendorError, send: Send): boolean =>
  !send.seen && /^ERR_(?:INVALID|UNESCAPED)/.test(errorCode(error) ?? "");

function answer(code: number, detail: string, error: VendorError, send: Send, facts: RequestFacts): Failure {
  const httpStatus = send.status ?? code;
  const reason = error.errors?.find((one) => one.reason !== undefined)?.reason;
  const where = `HTTP ${httpStatus}${code === httpStatus ? "" : ` with error ${code}`}${reason ? `, ${reason}` : ""}`;
  if (code === 408 || httpStatus === 408) {
    const text = `the server's own time limit ended the request (${where}): ${detail}`;
    return { text, outcome: "unknown", retry: false, timedOut: true, httpStatus };
  }
  const text = `the server answered ${where}: ${detail}`;
  if (facts.read) {
    const passing = code >= 500 || code === 429 || (reason !== undefined && busy.has(reason));
    return { text, outcome: "refused", retry: passing, httpStatus };
  }
  // An error in the body of a good answer is none of those that stand in the list.
  const refused = !isSuccess(httpStatus) && beforeExecution.has(httpStatus);
  return { text, outcome: refused ? "refused" : "unknown", retry: false, httpStatus };
}

const isNetworkCode = (code: string | number | undefined): boolean =>
  typeof code === "string" && /^E[A-Z_]+$/.test(code) && !code.startsWith("ERR_");

const firstLine = (text: string): string => (text.split("\n", 1)[0] ?? "").slice(0, 500);
