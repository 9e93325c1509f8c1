import type { ClickHouseClient } from "@clickhouse/client";
import type { Clock } from "@holdfast/deadline-http";
import type { LeaseKeeper } from "@holdfast/lease-core";
import type { ObjectStore } from "@holdfast/object-store";
import type { CaptureSchema } from "@holdfast/pack-format";
import type { PackRef } from "./pack-ref.js";

/** Budgets of one pass; all are counts unless their name has a unit. */
export type IndexerLimits = {
  /** Packs in one pass, so in one publish. Default 64. More are done in several passes. */
  readonly packsPerPass?: number;
  /** Rows in one descriptor INSERT. 1..10000, default 5000. */
  readonly rowsPerInsert?: number;
  /** Estimated bytes of one pass's descriptors. Default 128 MiB. A pass over it is split in halves. */
  readonly passBytes?: number;
  /** Publishes tried when another publisher keeps coming first. Default 8. */
  readonly publishAttempts?: number;
  /** Versions claimed until one is found to be ours alone. Default 16. */
  readonly allocationAttempts?: number;
  /** Bound of one object-store call of a pass or a reconcile. Default: requestTimeoutMs. */
  readonly storeTimeoutMs?: number;
  /** Passes of reconcile that a broken pack is blamed in before it is set aside. Default 5. */
  readonly packAttempts?: number;
};

export type IndexerOptions = {
  /** The caller's client; the indexer binds it to its deadlines and never closes it. */
  readonly client: ClickHouseClient;
  /** Database of the catalog. Default: the client's own. */
  readonly database?: string;
  /** One schema = one catalog: its name is the table prefix, the lease name and the key prefix. */
  readonly schema: CaptureSchema;
  readonly store: ObjectStore;
  /** Keeper of the lease named like the schema. Indexers of one keeper never run two passes at a time. */
  readonly keeper: LeaseKeeper;
  /** Bound of one catalog request outside the lease's own deadline. Default 60000. */
  readonly requestTimeoutMs?: number;
  readonly clock?: Clock;
  /** Uniform in [0, 1). */
  readonly random?: () => number;
  readonly limits?: IndexerLimits;
  readonly reconcile?: {
    /** A reconcile lists everything when the last full one is this long ago. Default 3600000. */
    readonly fullIntervalMs?: number;
  };
};

/**
 * Why a pack was not indexed.
 *
 * - `pack`: it breaks a rule; only it is to blame. Owed, and set aside by the caller after some attempts.
 * - `store`: the object store did not answer; says nothing about the pack. Owed.
 * - `waiting-for-schema`: written by a newer schema version or file version. Owed, never set aside.
 * - `foreign`: a pack of another schema. Not owed, nobody to blame.
 */
export type FailureKind = "pack" | "store" | "waiting-for-schema" | "foreign";

export type PackFailure = {
  readonly pack: PackRef;
  readonly code: string;
  readonly message: string;
  readonly kind: FailureKind;
};

export type IndexResult = {
  readonly requested: number;
  /** Already in the catalog (or given twice): nothing was to be done. */
  readonly skipped: number;
  readonly indexedPacks: number;
  readonly indexedRecords: number;
  /** Version that made them visible; the greatest one where several passes were needed; null when nothing was published. */
  readonly version: bigint | null;
  readonly failures: readonly PackFailure[];
};

export type ReconcileResult = {
  /** Whether everything was listed. */
  readonly full: boolean;
  readonly listedObjects: number;
  readonly listRequests: number;
  readonly writers: number;
  /** Packs found in the bucket, missing in the catalog, and indexed now. */
  readonly reconciledPacks: number;
  readonly reconciledRecords: number;
  /** Objects under the catalog's prefix that are no packs of this catalog. */
  readonly foreignObjects: number;
  /** Heads that failed: asked again by the next pass. */
  readonly headErrors: number;
  /** Packs given up in this pass: blamed `packAttempts` times. */
  readonly setAside: readonly PackFailure[];
  readonly failures: readonly PackFailure[];
};

export type IndexerCounters = {
  readonly passes: number;
  readonly publishes: number;
  readonly publishRaces: number;
  readonly batchSplits: number;
  readonly indexedPacks: number;
  readonly indexedRecords: number;
  readonly skippedPacks: number;
  readonly failedPacks: number;
  readonly repairedInventory: number;
  readonly reconcilePasses: number;
  readonly reconciledPacks: number;
  readonly foreignObjects: number;
  readonly headErrors: number;
  readonly catalogStatements: number;
};

/** The writing side of one catalog. Closes nothing: client, store and keeper belong to the caller. */
export interface Indexer {
  /**
   * Creates or extends the catalog's tables, or checks that they fit. Takes the schema lease when something is to be
   * done, and on a fresh install the publisher lease inside it when the keeper does not hold it (given back afterwards).
   *
   * Throws CATALOG_NEWER, CATALOG_SCHEMA_MISMATCH, CATALOG_UNSTAMPED, CATALOG_BUSY, CATALOG_UNREACHABLE; the message says
   * what to do.
   */
  ensureSchema(o?: { signal?: AbortSignal }): Promise<void>;
  /**
   * Makes packs visible: plan, read, commit. Takes the lease lock for plan and commit, never while it reads objects. Packs
   * that are in the catalog already are skipped, so asking again is safe and is what to do after any error.
   *
   * Throws what the keeper throws without a lease, LEASE_LOST, PUBLISH_RACE, ALLOCATION_FAILED, PUBLISH_CONFLICT (visible
   * and committed all the same), and errors of deadline-http; after an unknown outcome the lease is quarantined.
   * Failures of single packs do not throw: they are in the result.
   */
  index(packs: readonly PackRef[], o?: { signal?: AbortSignal }): Promise<IndexResult>;
  /** Finds packs in the bucket that the catalog does not have and indexes them. One at a time; needs the lease. */
  reconcile(o?: { signal?: AbortSignal; full?: boolean }): Promise<ReconcileResult>;
  /** Tells reconcile to leave these packs alone, until this process ends. */
  setAside(packs: readonly Pick<PackRef, "writerId" | "sequence" | "key">[]): void;
  readonly counters: IndexerCounters;
}
