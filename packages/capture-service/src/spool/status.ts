import type { SealReason } from "./queue.js";

/** State of the spool directory; JSON-safe. Counters count from the start of the service. */
export type SpoolStatus = {
  /** Names this directory's packs in the bucket. */
  readonly writerId: string;
  /** Sealed packs that wait for their upload. */
  readonly packs: number;
  /** Numbers that wait to be published as void. */
  readonly voids: number;
  /** Records in the pack being written. */
  readonly openRecords: number;
  /** Records admitted and not yet on disk, and the bytes that they hold in memory. */
  readonly queuedRecords: number;
  readonly queuedBytes: number;
  /** Appends that wait for room. */
  readonly waitingAppends: number;
  /** Files that a failed write ended and whose acknowledged records are not sealed again yet. */
  readonly unmended: number;
  /** Bytes on disk and reserved, the most that they ever were, and `spool.maxBytes`. */
  readonly bytes: number;
  readonly peakBytes: number;
  readonly maxBytes: number;
  readonly sealedPacks: Readonly<Record<SealReason, number>>;
  /** Packs of a killed predecessor that the start sealed. */
  readonly salvagedOnStart: number;
  /** Files that could not be used and were moved aside; `lastError` named each when it happened. */
  readonly movedAside: number;
  readonly writeFailures: number;
  /** Admitted records whose receipts were refused because the disk did not take them. */
  readonly refusedRecords: number;
  readonly lastError: string | null;
};
