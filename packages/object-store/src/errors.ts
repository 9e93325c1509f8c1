/**
 * What went wrong, in a word that callers branch on.
 *
 * - `NOT_FOUND`: nothing is at the key.
 * - `PRECONDITION_FAILED`: the object is not the one named by `ifMatch`.
 * - `INVALID_KEY`: the key, prefix or `startAfter` breaks the key rules, or the store's length limit.
 * - `INVALID_METADATA`: metadata that no store could keep.
 * - `INVALID_RANGE`: the range is malformed or lies outside the object; a `limit` that is not a whole number above 0.
 * - `TOO_LARGE`: more bytes than the store takes.
 * - `BODY_MISMATCH`: the body gave another number of bytes than it declared.
 * - `UNSUPPORTED`: the store does not declare the capability.
 * - `ACCESS_DENIED`: the store is there and refuses us; the message says what to change. Trying again does not help.
 * - `UNAVAILABLE`: the store did not answer or could not do it now; trying again may help.
 * - `CANCELED`: the caller's signal was aborted, by a caller and not by a deadline.
 * - `CONFIG_INVALID`: the options of a store cannot work; the message names the option.
 * - `CORRUPT`: what the store gave is not what was stored or asked for.
 * - `CONTRACT_BROKEN`: the store answers, but not as it declares; only {@link probe} says so, see {@link ContractBrokenError}.
 */
export type ObjectStoreErrorCode =
  | "NOT_FOUND"
  | "PRECONDITION_FAILED"
  | "INVALID_KEY"
  | "INVALID_METADATA"
  | "INVALID_RANGE"
  | "TOO_LARGE"
  | "BODY_MISMATCH"
  | "UNSUPPORTED"
  | "ACCESS_DENIED"
  | "UNAVAILABLE"
  | "CANCELED"
  | "CONFIG_INVALID"
  | "CORRUPT"
  | "CONTRACT_BROKEN";

/** An error of an object store. Branch on `code`: two copies of this package may be loaded, so `instanceof` does not do. */
export class ObjectStoreError extends Error {
  override readonly name: string = "ObjectStoreError";
  readonly code: ObjectStoreErrorCode;

  /** `message` says what was wrong, with the value, and what to do; the code is put in front of it. */
  constructor(code: ObjectStoreErrorCode, message: string, options?: { readonly cause?: unknown }) {
    super(`[${code}] ${message}`, options);
    this.code = code;
  }
}

/** The clauses of the contract that {@link probe} looks at. */
export type ProbedClause =
  "contract" | "create" | "ifMatch" | "undeclared" | "metadata" | "range" | "get ifMatch" | "list" | "delete";

/** A store does not do what it declares (`CONTRACT_BROKEN`); `clause` says in what, the message what was seen and what to do. */
export class ContractBrokenError extends ObjectStoreError {
  override readonly name = "ContractBrokenError";
  readonly clause: ProbedClause;

  constructor(clause: ProbedClause, message: string) {
    super("CONTRACT_BROKEN", message);
    this.clause = clause;
  }
}

/** The string `code` of an error of any package, or `undefined`. */
export function errorCode(error: unknown): string | undefined {
  if (typeof error !== "object" || error === null || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}

/** What was thrown, as an `Error`: itself when it is one. */
export function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown), { cause: thrown });
}
