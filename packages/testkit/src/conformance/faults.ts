/** The requests of the five methods. */
export type Operation = "put" | "get" | "head" | "list" | "delete";

/**
 * What can go wrong between a store and its server. "Done" means that the request has taken its effect.
 *
 * Connection: `request-lost` (reset, not done), `answer-lost` (done, reset), `late` (reset, done when `release` is called),
 * `stalled` (done, and no answer ever), `body-stalled` (half of the body and nothing more), `body-cut` (half of it and a reset).
 * Answers, the request not done: `throttled` (503), `conflict` (409), `missing` (404), `precondition` (412), `forbidden` (403),
 * `bad-digest` (400), `error-in-200` (a success that carries an error). Done: `error-after` (500).
 * Conditions and etags: `condition-ignored`, `etag-unquoted`, `etag-missing`.
 * Bodies: `truncated` (a byte too few, declared as if whole), `shifted` (another range, and it says so), `oversized` (a byte too
 * many), `range-ignored` (a 200 with all of it), `gzip-decoded` (longer than declared), `wrong-checksum`, `size-missing`.
 * Pages: `page-repeats` (the one before again), `page-drifts` (out of order), `page-skips` (an entry is missing, its count is
 * not), `page-foreign` (a key outside the prefix), `page-long` (more than asked for), `page-empty` (nothing, and more to
 * come), `token-lost` (more to come, and no token), `token-refused` (400), `token-stuck` (the same page and token for ever).
 */
export type FaultKind =
  | ("request-lost" | "answer-lost" | "late" | "stalled" | "body-stalled" | "body-cut")
  | (
      | "throttled"
      | "conflict"
      | "missing"
      | "precondition"
      | "forbidden"
      | "bad-digest"
      | "error-in-200"
      | "error-after"
    )
  | ("condition-ignored" | "etag-unquoted" | "etag-missing")
  | ("truncated" | "shifted" | "oversized" | "range-ignored" | "gzip-decoded" | "wrong-checksum" | "size-missing")
  | ("page-repeats" | "page-drifts" | "page-skips" | "page-foreign" | "page-long" | "page-empty")
  | ("token-lost" | "token-refused" | "token-stuck");

/** One thing to go wrong: with which requests, in what way, and how many times (default 1; `Infinity`: always). */
export type Fault = {
  readonly on: Operation;
  readonly kind: FaultKind;
  readonly times?: number;
  /** How many fitting requests go well before (default 0): the second page of a listing, say. */
  readonly after?: number;
};

/** A fault that has been asked for. */
export type Injected = {
  /** Resolves when it has struck for the first time. */
  readonly struck: Promise<void>;
  /** How many times it has struck. */
  count(): number;
  /** Lets a `late` request take its effect; resolves when it has. */
  release(): Promise<void>;
};

/**
 * Breaks the wire of a store. An author who can put one between the store and its server (a scripted request handler, a proxy) gets
 * the cases under faults on the real client; kinds that are not in `kinds` run on the suite's own.
 */
export interface FaultInjector {
  readonly kinds: ReadonlySet<FaultKind>;
  inject(fault: Fault): Injected;
}
