import { runCall, type Failure } from "../call.js";
import type { Clock } from "../clock.js";
import { ConfigError } from "../errors.js";
import { unprovedEnd } from "../node-http/body-end.js";
import { errorCode, errorText, isTlsError, provesNotConnected } from "../net-errors.js";
import { systemClock } from "../registry.js";
import { boundResponse } from "./response.js";
import { watchSends } from "./sends.js";

/** Options of {@link bindFetch}. */
export interface BindFetchOptions {
  /** Default: the machine's clock. */
  readonly clock?: Clock | undefined;
  /** Attempts of one call, the first included. Default 1: a repeated request would surprise a user of fetch. */
  readonly maxAttempts?: number | undefined;
}

const readMethods = new Set(["GET", "HEAD", "OPTIONS"]);

/**
 * `fetch` under the scopes in force: headers and body end by the deadline, failures carry `code`, `timedOut` and
 * `outcome`. With `maxAttempts` above 1 a request that was provably not sent goes again, and a GET, HEAD or OPTIONS
 * without a body also after a broken connection or a 5xx; the last response is given back as it is. A response of any
 * status is a success, as with fetch. `init.signal` ends a call with `CANCELED`. The body of a 2xx over HTTP/1 that has neither a
 * length nor chunks is not given out: reading it fails, since a part of it would look like all of it.
 *
 * Not-sent is proved for the fetch of Node itself and for undici's; for another one only by error codes, and only where
 * it follows no redirects (`redirect: "error"` or `"manual"`), since the code may be of the second request.
 */
export function bindFetch(fetchFn: typeof fetch = fetch, o: BindFetchOptions = {}): typeof fetch {
  const { maxAttempts = 1 } = o;
  if (!Number.isInteger(maxAttempts) || maxAttempts < 1) {
    throw new ConfigError(`maxAttempts is ${maxAttempts}; give a whole number of at least 1`);
  }
  const clock = o.clock ?? systemClock;
  return async (input, init) => {
    const request = input instanceof Request ? input : null;
    const method = (init?.method ?? request?.method ?? "GET").toUpperCase();
    const hasBody = (init?.body ?? request?.body ?? null) !== null;
    const facts = { read: readMethods.has(method) && !hasBody, repeatable: !hasBody || typeof init?.body === "string" };
    const secure = !addressOf(input).startsWith("http:");
    const follows = (init?.redirect ?? request?.redirect ?? "follow") === "follow";
    const seen = { watching: false, mayBeSecond: follows };
    return runCall({
      clock,
      limit: null,
      signal: init?.signal ?? request?.signal ?? null,
      maxAttempts,
      attempt: async (attempt) => {
        attempt.start();
        const found = watchSends(attempt, secure, () => fetchFn(input, { ...init, signal: attempt.signal }));
        const response = await found.response.finally(() => {
          seen.watching = found.seen();
          seen.mayBeSecond = follows && found.requests() !== 1;
        });
        if (facts.read && response.status >= 500 && attempt.number < maxAttempts) {
          await response.body?.cancel();
          throw new ServerFault(response.status);
        }
        const flaw = found.http1() && response.body !== null ? flawOf(method, response) : null;
        if (flaw && facts.read && attempt.number < maxAttempts) {
          await response.body?.cancel();
          throw new UnprovedEnd(flaw, response.status);
        }
        return boundResponse(response, attempt, flaw && new UnprovedEnd(flaw, response.status));
      },
      classify: (error, sent) => classify(error, sent, seen, facts),
    });
  };
}

const addressOf = (input: Parameters<typeof fetch>[0]): string =>
  typeof input === "string" ? input : input instanceof URL ? input.href : input.url;

class ServerFault extends Error {
  constructor(readonly status: number) {
    super(`the server answered HTTP ${status}`);
  }
}

/** What the headers of a response lack, for its body to prove its end. */
function flawOf(method: string, { status, headers }: Response): Error | null {
  const [contentLength, transferEncoding] = [headers.get("content-length"), headers.get("transfer-encoding")];
  return unprovedEnd(method, status, { contentLength, transferEncoding });
}

class UnprovedEnd extends Error {
  constructor(
    flaw: Error,
    readonly status: number,
  ) {
    super(flaw.message);
  }
}

interface RequestFacts {
  readonly read: boolean;
  readonly repeatable: boolean;
}

interface Seen {
  /** It is known whether the request was written. */
  readonly watching: boolean;
  /** The failed connection may be that of a redirect: a request before it was sent, and perhaps executed. */
  readonly mayBeSecond: boolean;
}

function classify(error: unknown, sent: boolean, seen: Seen, facts: RequestFacts): Failure {
  if (error instanceof ServerFault) {
    return { text: error.message, outcome: "refused", retry: true, httpStatus: error.status };
  }
  if (error instanceof UnprovedEnd) {
    return { text: error.message, outcome: "unknown", retry: facts.read, httpStatus: error.status };
  }
  const notSent = !sent || (!seen.watching && !seen.mayBeSecond && provesNotConnected(error));
  const text = `${notSent ? "the request could not be sent" : "the connection broke"}: ${errorText(error)}`;
  // An error without a code is about the request itself: it would fail the same way again.
  const passing = errorCode(error) !== undefined && !isTlsError(error);
  return {
    text,
    outcome: notSent ? "not-sent" : "unknown",
    retry: passing && facts.repeatable && (notSent || facts.read),
  };
}
