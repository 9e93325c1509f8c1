import type { Clock } from "@holdfast/deadline-http";
import type { ErrorLog } from "../error-log.js";
import { CaptureError } from "../errors.js";
import type { AdmittedRecord } from "../records.js";
import type { SpoolFiles } from "./files.js";
import type { Identity } from "./identity.js";
import { Ledger } from "./ledger.js";
import { Mender } from "./mender.js";
import type { Ownership } from "./owner.js";
import { newWriter, Pump, type PumpSettings } from "./pump.js";
import type { SealReason } from "./queue.js";
import { ReceiptKeeper, type Receipt } from "./receipt.js";
import { Shelf } from "./shelf.js";
import type { SpoolStatus } from "./status.js";
import type { Swept } from "./sweep.js";

export type SpoolSettings = PumpSettings & {
  readonly maxBytes: number;
  readonly maxQueuedBytes: number;
  readonly admissionTimeoutMs: number;
};

export type SpoolParts = {
  readonly settings: SpoolSettings;
  readonly files: SpoolFiles;
  readonly clock: Clock;
  readonly newId: () => string;
  readonly ownership: Ownership;
  readonly identity: Identity;
  readonly swept: Swept;
  readonly errors: ErrorLog;
};

/** The local side of capture: admission, the pump that writes packs, and the shelf on which they wait for their upload. */
export class Spool {
  readonly shelf: Shelf;
  readonly #o: SpoolSettings;
  /** Bytes of a pack before its first record. */
  readonly #opening: number;
  readonly #ledger: Ledger;
  readonly #mender: Mender;
  readonly #pump: Pump;
  #movedAside: number;
  #lastError: string | null;
  #closed: Promise<void> | null = null;

  constructor(private readonly parts: SpoolParts) {
    const { settings, swept, identity, files, clock, newId } = parts;
    const { directory } = settings;
    const { writerId } = identity;
    this.#o = settings;
    this.#opening = newWriter(settings, { writerId, packId: newId(), sequence: 0n }).projectedSize();
    const ledger = new Ledger({ clock, headroom: this.#opening, ...settings });
    ledger.adopt(swept.bytes);
    this.#ledger = ledger;
    const { sealed: packs, voids, nextSequence, unmended } = swept;
    const shelf = new Shelf({ files, directory, ledger, identity, packs, voids, nextSequence });
    const note = (text: string, movedAside = false): void => this.#note(text, movedAside);
    const kick = (): void => this.#pump.kick();
    this.shelf = shelf;
    this.#mender = new Mender({ files, directory, ledger, shelf, clock, unmended, note, kick });
    this.#pump = new Pump({
      ...{ settings, files, clock, newId, writerId, nextSequence, ledger, shelf, note },
      mender: this.#mender,
    });
    this.#movedAside = swept.notes.length;
    this.#lastError = swept.notes.at(-1) ?? null;
    if (this.#lastError !== null) parts.errors.note(this.#lastError);
  }

  /** Whether nothing is queued, open or waiting to be mended: whatever there is lies on the shelf. */
  get isSettled(): boolean {
    return this.#pump.isIdle && this.#mender.waiting === 0;
  }

  /**
   * Admits records: all of them or none. Resolves when there is room for them and the queue has taken them.
   * RECORD_INVALID (an id twice), RECORD_TOO_LARGE, SPOOL_FULL, ADMISSION_TIMEOUT, SPOOL_UNWRITABLE, STOPPED.
   */
  async append(records: readonly AdmittedRecord[]): Promise<Receipt> {
    this.#refuseIfNeeded();
    for (const record of records) this.#checkFits(record);
    const receipt = new ReceiptKeeper(records.map(({ record }) => record.captureId));
    if (records.length === 0) return receipt;
    const bytes = records.reduce((sum, record) => sum + record.packBytes, 0);
    const memory = records.reduce((sum, record) => sum + record.memoryBytes, 0);
    await this.#ledger.admit(bytes, memory);
    try {
      // It may have been stopped meanwhile, and nothing may come into the queue after its last seal.
      this.#refuseIfNeeded();
      this.#pump.queue.push(records, receipt, (id) => this.#pump.has(id));
    } catch (error) {
      this.#ledger.free(bytes);
      this.#ledger.dequeue(memory);
      throw error;
    }
    this.#pump.kick();
    return receipt;
  }

  /** Writes and seals what was admitted before the call. Resolves also when the disk refused: look at `isSettled`. */
  seal(reason: SealReason): Promise<void> {
    return new Promise((done) => {
      this.#pump.queue.pushBarrier({ reason, only: null, done }, "last");
      this.#pump.kick();
    });
  }

  /** For the shelf's user: a pack was found to be bad and moved aside. */
  noteMovedAside(text: string): void {
    this.#note(text, true);
  }

  /** Room came free on the shelf: what waits for it may go on. */
  roomFreed(): void {
    if (this.#mender.waiting > 0) this.#pump.kick();
  }

  status(): SpoolStatus {
    const { counters, queue, openRecords } = this.#pump;
    return {
      writerId: this.parts.identity.writerId,
      packs: this.shelf.packs.length,
      voids: this.shelf.voids.length,
      openRecords,
      queuedRecords: queue.records,
      queuedBytes: this.#ledger.queued,
      waitingAppends: this.#ledger.waiting,
      unmended: this.#mender.waiting,
      bytes: this.#ledger.charged,
      peakBytes: this.#ledger.peak,
      maxBytes: this.#o.maxBytes,
      sealedPacks: { ...counters.sealed },
      salvagedOnStart: this.parts.swept.salvaged,
      movedAside: this.#movedAside,
      writeFailures: counters.writeFailures,
      refusedRecords: counters.refused,
      lastError: this.#lastError,
    };
  }

  /**
   * Takes nothing more, writes and seals what was admitted, and gives the directory up. What the disk still refuses is
   * refused to its receipts. Repeated calls give the same promise.
   */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    const stopped = new CaptureError("STOPPED", "the service has been stopped: nothing is appended any more.");
    this.#pump.stop(stopped);
    this.#ledger.refuseAll(stopped);
    await this.seal("shutdown");
    await this.#pump.idle();
    await this.shelf.settled();
    await this.parts.ownership.release();
  }

  #refuseIfNeeded(): void {
    const { refusal } = this.#pump;
    if (refusal !== null) throw refusal;
  }

  #checkFits(record: AdmittedRecord): void {
    const needed = this.#opening + record.packBytes;
    if (needed <= this.#o.maxPackBytes) return;
    throw new CaptureError(
      "RECORD_TOO_LARGE",
      `record ${record.record.captureId} needs up to ${needed} bytes in a pack of its own, spool.maxPackBytes is ` +
        `${this.#o.maxPackBytes}: split the payload, or raise spool.maxPackBytes.`,
    );
  }

  #note(text: string, movedAside: boolean): void {
    this.#lastError = text;
    this.parts.errors.note(text);
    if (movedAside) this.#movedAside += 1;
  }
}
