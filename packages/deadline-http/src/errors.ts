/**
 * What the server may have done when a request failed. `not-sent`: proved, no byte of the request reached a connected,
 * secured socket. `refused`: the server answered, and by an allow-list that answer comes before execution. `unknown`:
 * everything else; the request may have taken effect, may take effect later, or may have done nothing.
 */
export type Outcome = "not-sent" | "refused" | "unknown";

/** The limit that ended a request: its name, its value in ms, and the settings (full path -> value in ms) it came from. */
export type Bound = {
  readonly name: string;
  readonly ms: number;
  readonly knobs: Readonly<Record<string, number>>;
};

const rank: Readonly<Record<Outcome, number>> = { "not-sent": 0, refused: 1, unknown: 2 };

/**
 * The graver of two outcomes: over the attempts of one call an outcome only rises.
 * @internal
 */
export function graver(a: Outcome, b: Outcome): Outcome {
  return rank[a] >= rank[b] ? a : b;
}

const said: Readonly<Record<Outcome, string>> = {
  "not-sent": "nothing was sent",
  refused: "the server refused it before execution",
  unknown: "the server may have received and executed it",
};

const because = (cause: unknown): ErrorOptions | undefined => (cause === undefined ? undefined : { cause });

/** `claim bound of 5000 ms (lease.ttlMs = 15000)` */
export function boundText(bound: Bound): string {
  const knobs = Object.entries(bound.knobs).map(([path, ms]) => `${path} = ${ms}`);
  return `${bound.name} of ${bound.ms} ms${knobs.length > 0 ? ` (${knobs.join(", ")})` : ""}`;
}

/** Details of a failure that more than one error class carries. */
export interface FailureDetails {
  readonly outcome: Outcome;
  /** Appended to the message: why it ended here, what was not tried, how late the event loop was. */
  readonly note?: string | undefined;
  readonly cause?: unknown;
}

const noted = (text: string, d: FailureDetails): string =>
  `${text}${d.note ? `; ${d.note}` : ""}; outcome ${d.outcome}: ${said[d.outcome]}`;

/** A deadline in force ran out (code `DEADLINE_EXCEEDED`). Not retried by this package. */
export class DeadlineExceededError extends Error {
  override readonly name = "DeadlineExceededError";
  readonly code = "DEADLINE_EXCEEDED";
  readonly timedOut = true;
  readonly outcome: Outcome;
  /** The tightest bound in force. */
  readonly bound: Bound;
  constructor(bound: Bound, d: FailureDetails) {
    super(`[DEADLINE_EXCEEDED] ${noted(`${boundText(bound)} ran out`, d)}`, because(d.cause));
    this.bound = bound;
    this.outcome = d.outcome;
  }
}

/** The caller's own signal ended the request or the wait (code `CANCELED`); never used for a deadline. */
export class CanceledError extends Error {
  override readonly name = "CanceledError";
  readonly code = "CANCELED";
  readonly timedOut = false;
  readonly outcome: Outcome;
  constructor(d: FailureDetails) {
    super(`[CANCELED] ${noted("the caller's signal was aborted", d)}`, because(d.cause));
    this.outcome = d.outcome;
  }
}

/** A request was begun, or its body read, in a scope that was already left (code `SCOPE_CLOSED`). */
export class ScopeClosedError extends Error {
  override readonly name = "ScopeClosedError";
  readonly code = "SCOPE_CLOSED";
  readonly timedOut = false;
  readonly outcome: Outcome;
  constructor(scopeName: string, d: FailureDetails) {
    super(
      `[SCOPE_CLOSED] ${noted(
        `the scope "${scopeName}" was left; await every request and read every body inside it, or run it in detached()`,
        d,
      )}`,
      because(d.cause),
    );
    this.outcome = d.outcome;
  }
}

/** The deadline function of a scope answered `gone`: what the request depended on no longer exists (code `LEASE_LOST`). */
export class LeaseLostError extends Error {
  override readonly name = "LeaseLostError";
  readonly code = "LEASE_LOST";
  readonly timedOut = false;
  readonly outcome: Outcome;
  constructor(scopeName: string, d: FailureDetails) {
    super(`[LEASE_LOST] ${noted(`the lease behind the scope "${scopeName}" is gone`, d)}`, because(d.cause));
    this.outcome = d.outcome;
  }
}

/** The request failed, or the server answered an error (code `REQUEST_FAILED`). Never holds credentials. */
export class RequestError extends Error {
  override readonly name = "RequestError";
  readonly code = "REQUEST_FAILED";
  /** True when the server's own time limit ended it. */
  readonly timedOut: boolean;
  readonly outcome: Outcome;
  /** The server's own error number, where it named one. */
  readonly serverCode: number | undefined;
  readonly httpStatus: number | undefined;
  constructor(
    text: string,
    d: FailureDetails & {
      readonly timedOut?: boolean;
      readonly serverCode?: number | undefined;
      readonly httpStatus?: number | undefined;
    },
  ) {
    super(`[REQUEST_FAILED] ${noted(text, d)}`, because(d.cause));
    this.timedOut = d.timedOut ?? false;
    this.outcome = d.outcome;
    this.serverCode = d.serverCode;
    this.httpStatus = d.httpStatus;
  }
}

/** A duration or option that cannot work (code `CONFIG_INVALID`): the message has the name and the value. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
  readonly code = "CONFIG_INVALID";
  constructor(text: string) {
    super(`[CONFIG_INVALID] ${text}`);
  }
}
