import { ObjectStoreError } from "@holdfast/object-store";
import type { Outcome } from "@holdfast/deadline-http";

/**
 * A conditional write lost: the branch moved on from the revision that the write was based on, and nothing of the write, or of the batch
 * that it is part of, was made visible. Read `current`, decide again, and write again with `head` as the base revision.
 */
export class ConcurrencyConflictError extends Error {
  override readonly name = "ConcurrencyConflictError";
  /** What callers branch on. */
  readonly code = "CONCURRENCY_CONFLICT";
  /** The status of HTTP for this, for whatever passes it on. */
  readonly status = 409;
  /** The path of the conditional write; of several in one batch, the first that was made. */
  readonly path: string;
  /** What is at `path` in `head`; null when nothing is. */
  readonly current: Uint8Array | null;
  /** The commit that the branch is at; null when the branch has none. */
  readonly head: string | null;

  constructor(o: { readonly path: string; readonly current: Uint8Array | null; readonly head: string | null }) {
    const seen = o.head === null ? "the branch has no commit" : `the branch is at ${o.head}`;
    super(
      `[CONCURRENCY_CONFLICT] ${JSON.stringify(o.path)} was to be changed from an older revision, and ${seen} now; nothing was written: read it again, then write with that revision`,
    );
    this.path = o.path;
    this.current = o.current;
    this.head = o.head;
  }
}

/**
 * The remote kept failing for `retryBudgetMs` (`UNAVAILABLE`); a later retry may succeed. `outcome` says what may have
 * happened: `not-sent` nothing, `refused` nothing, `unknown` the push may have landed. Trying again after `unknown` is safe for a conditional write, and
 * for an unconditional one as far as writing the same again is.
 */
export class RemoteUnavailableError extends ObjectStoreError {
  override readonly name = "RemoteUnavailableError";
  /** What may have happened: only after `unknown` can the push have landed. */
  readonly outcome: Outcome;
  /** A pause, in ms, after which to try again. */
  readonly retryAfterMs: number;

  constructor(
    message: string,
    o: { readonly outcome: Outcome; readonly retryAfterMs: number; readonly cause?: unknown },
  ) {
    super("UNAVAILABLE", message, o.cause === undefined ? {} : { cause: o.cause });
    this.outcome = o.outcome;
    this.retryAfterMs = o.retryAfterMs;
  }
}
