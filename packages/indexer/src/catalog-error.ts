import type { Outcome } from "@holdfast/deadline-http";

/**
 * What a caller may branch on. One line per code:
 *
 * - `PUBLISH_RACE`: the publish became visible nowhere (another publisher's version came first, or its manifest was
 *   incomplete) and all attempts are used up; the packs are still owed.
 * - `PUBLISH_CONFLICT`: two publishes stand at one version. Ours IS visible: do not publish again.
 * - `ALLOCATION_FAILED`: no version could be claimed alone within the allowed attempts.
 * - `LEASE_LOST`: the publisher lease is not ours (any more), so nothing was made visible.
 * - `CATALOG_NEWER`: the catalog's layout is of a newer Holdfast.
 * - `CATALOG_SCHEMA_MISMATCH`: the catalog's tables or fields do not fit the capture schema or this version.
 * - `CATALOG_UNSTAMPED`: tables with data but without a stamp.
 * - `CATALOG_BUSY`: another process holds the schema lease or the publisher lease and did not finish in time.
 * - `CATALOG_UNREACHABLE`: ClickHouse did not answer, or refused the user or the database.
 * - `CATALOG_NAME_INVALID`: a catalog or database name outside the allowed characters.
 * - `BATCH_TOO_LARGE`: one pass would hold more descriptors than its budget.
 * - `KEY_INVALID`: a writer id, pack id or sequence outside its rules.
 * - `STORE_UNDER_LEASE`: an object-store call was attempted while the lease lock was held: a defect, not a fault.
 */
export type CatalogErrorCode =
  | "PUBLISH_RACE"
  | "PUBLISH_CONFLICT"
  | "ALLOCATION_FAILED"
  | "LEASE_LOST"
  | "CATALOG_NEWER"
  | "CATALOG_SCHEMA_MISMATCH"
  | "CATALOG_UNSTAMPED"
  | "CATALOG_BUSY"
  | "CATALOG_UNREACHABLE"
  | "CATALOG_NAME_INVALID"
  | "BATCH_TOO_LARGE"
  | "KEY_INVALID"
  | "STORE_UNDER_LEASE";

/**
 * Codes of single packs that an index pass could not index, beside those of pack-format and of the object store:
 *
 * - `PACK_MISMATCH`: the pack is not what its key, its metadata or the catalog's schema says.
 * - `PACK_CONFLICT`: references to one pack say different things.
 * - `FOREIGN_SCHEMA`: a pack of another schema.
 * - `WAITING_FOR_SCHEMA`: a pack of a newer schema version than this process knows.
 * - `STORE_UNAVAILABLE`: the object store did not answer, for this pack or for one before it.
 */
export type PackFailureCode =
  "PACK_MISMATCH" | "PACK_CONFLICT" | "FOREIGN_SCHEMA" | "WAITING_FOR_SCHEMA" | "STORE_UNAVAILABLE";

/** Error of the catalog packages; branch on `code`. `outcome` says what the server may have done with the last write. */
export class CatalogError extends Error {
  override readonly name = "CatalogError";
  readonly code: CatalogErrorCode;
  readonly outcome: Outcome;

  constructor(code: CatalogErrorCode, message: string, o: { cause?: unknown; outcome?: Outcome } = {}) {
    super(`[${code}] ${message}`, o.cause === undefined ? undefined : { cause: o.cause });
    this.code = code;
    this.outcome = o.outcome ?? "refused";
  }
}

/** The stable `code` of any error of ours, or "" where there is none. Two copies of a class may be loaded: no instanceof. */
export function codeOf(error: unknown): string {
  if (typeof error !== "object" || error === null || !("code" in error)) return "";
  return typeof error.code === "string" ? error.code : "";
}

/** Whether a failed write may have reached the server. Everything that does not say otherwise may have. */
export function mayHaveLanded(error: unknown): boolean {
  if (typeof error !== "object" || error === null || !("outcome" in error)) return true;
  return error.outcome !== "not-sent" && error.outcome !== "refused";
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
