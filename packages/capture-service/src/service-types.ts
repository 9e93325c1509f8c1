import type { LeaseStatus } from "@holdfast/lease-core";
import type { CaptureSchema, RecordInput } from "@holdfast/pack-format";
import type { CaptureRole } from "./config.js";
import type { Receipt } from "./spool/receipt.js";
import type { SpoolStatus } from "./spool/status.js";

/** A pack that the service has given up; what there is of it is kept. */
export type SetAsidePack = { readonly key: string; readonly code: string; readonly message: string };

/** JSON-safe snapshot of a service. Counters count from the start of the service. */
export type CaptureStatus = {
  readonly role: CaptureRole;
  readonly state: "new" | "starting" | "running" | "stopping" | "stopped";
  /** Null in the role capture-only and before the start. `lease.state` never says held past the lease deadline. */
  readonly lease: LeaseStatus | null;
  /** Null before the start. */
  readonly spool: SpoolStatus | null;
  /** Packs uploaded and not yet indexed by this service. */
  readonly pendingIndex: number;
  /** Of a newer schema version than this service knows: left to one that knows it. */
  readonly waitingForSchema: number;
  readonly setAside: readonly SetAsidePack[];
  readonly reconcileOwed: boolean;
  readonly cycles: number;
  readonly uploadedPacks: number;
  readonly uploadedBytes: number;
  readonly uploadFailures: number;
  readonly cancelledUploads: number;
  readonly publishedVoids: number;
  readonly indexedPacks: number;
  readonly indexedRecords: number;
  readonly indexFailures: number;
  readonly reconcilePasses: number;
  readonly reconciledPacks: number;
  /** Requests made of the object store by this service, by operation. */
  readonly storeRequests: { readonly put: number; readonly get: number; readonly head: number; readonly list: number };
  readonly catalogStatements: number;
  /** Failures in a row; the pause between rounds doubles with each. */
  readonly failureStreak: number;
  readonly lastError: string | null;
};

/**
 * Takes records and sees to it that they become visible in the catalog. Made by `createCaptureService`; it must be stopped.
 */
export interface CaptureService<S extends CaptureSchema = CaptureSchema> extends AsyncDisposable {
  /**
   * Starts it: catalog tables, lease, spool, a look for packs that a predecessor left in the bucket, and the loop. Rejects
   * with nothing running, and may then be called again. Errors: LEASE_HELD and others of lease-core, CATALOG_UNREACHABLE and
   * others of the indexer, SPOOL_IN_USE, SPOOL_UNWRITABLE, SPOOL_UNSUITABLE, STOPPED; CANCELED by `signal`.
   */
  start(o?: { readonly signal?: AbortSignal }): Promise<void>;
  /**
   * Copies and checks the record before it returns, and resolves when it is admitted: in memory, not yet durable. Await it, so
   * that a slow disk slows you down. RECORD_INVALID, RECORD_TOO_LARGE, SPOOL_FULL, ADMISSION_TIMEOUT, SPOOL_UNWRITABLE,
   * NOT_STARTED, STOPPED: the record was not taken.
   */
  append(record: RecordInput<S>): Promise<Receipt>;
  /** As `append`, all of them or none, with one receipt. They may come to lie in several packs. */
  appendBatch(records: readonly RecordInput<S>[]): Promise<Receipt>;
  /**
   * Waits until everything that was admitted before the call, and what predecessors on this spool left in the bucket, is
   * visible in the catalog (role capture-only, and a standby without the lease: uploaded). False when that was not so after `timeoutMs`; the work goes on. `flush(0)` only indexes, and
   * at most one batch: it seals and uploads nothing. PACKS_SET_ASIDE once for packs given up since the last flush;
   * LEASE_LATCHED; NOT_STARTED. False after `stop()` has begun.
   */
  flush(timeoutMs: number): Promise<boolean>;
  /**
   * Ends the loop, seals what was admitted, gives the lease back. Uploads and waits are cut short, catalog statements never;
   * what was not uploaded stays in the spool for the next start. Never rejects; repeated calls give the same promise.
   */
  stop(): Promise<void>;
  status(): CaptureStatus;
}
