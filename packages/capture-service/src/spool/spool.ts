import type { Clock, Timer } from "@holdfast/deadline-http";
import { createPackWriter, type CaptureSchema, type Codec, type PackWriter } from "@holdfast/pack-format";
import type { ErrorLog } from "../error-log.js";
import { CaptureError, codeOf, describe } from "../errors.js";
import type { AdmittedRecord } from "../records.js";
import type { SpoolFiles } from "./files.js";
import type { Identity } from "./identity.js";
import { Ledger } from "./ledger.js";
import { Mender } from "./mender.js";
import { formatName } from "./names.js";
import type { Ownership } from "./owner.js";
import { PackFile } from "./pack-file.js";
import { isBarrier, Queue, total, type Queued, type SealReason } from "./queue.js";
import { ReceiptKeeper, type Receipt } from "./receipt.js";
import { Shelf } from "./shelf.js";
import type { SpoolStatus } from "./status.js";
import type { Swept } from "./sweep.js";

export type SpoolSettings = {
  readonly directory: string;
  readonly schema: CaptureSchema;
  readonly codec: Codec;
  readonly maxBytes: number;
  readonly maxPackBytes: number;
  readonly maxPackRecords: number;
  readonly maxLingerMs: number;
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

const backoffMs = (failures: number): number => Math.min(5_000, 100 * 2 ** Math.max(0, failures - 2));

/**
 * The local side of capture: records go into a queue, one pump writes them in groups into the pack file of the moment, and
 * sealed packs lie on the shelf until they are uploaded.
 *
 * Safety: a receipt resolves only after the group's bytes were written and fdatasynced under a name that is durable. A failed
 * write or fdatasync ends its file, whose name then says durably how much of it counts, and only after that are its
 * unacknowledged records written elsewhere. So each record is in one pack, and acknowledged ones are in a pack that every
 * later start seals to the same bytes.
 */
export class Spool {
  readonly shelf: Shelf;
  readonly #o: SpoolSettings;
  readonly #ledger: Ledger;
  readonly #mender: Mender;
  readonly #queue = new Queue();
  /** Bytes of a pack before its first record. */
  readonly #opening: number;
  #nextSequence: bigint;
  #pack: PackFile | null = null;
  #packCharge = 0;
  #linger: Timer | null = null;
  #pumping: Promise<void> | null = null;
  readonly #sealedBy: Record<SealReason, number> = { size: 0, records: 0, linger: 0, manual: 0, shutdown: 0 };
  #failures = 0;
  #writeFailures = 0;
  #refused = 0;
  #movedAside: number;
  #broken: { readonly until: number; readonly cause: unknown } | null = null;
  #lastError: string | null;
  #stopping: CaptureError | null = null;
  readonly #closing = new AbortController();
  #closed: Promise<void> | null = null;

  constructor(private readonly parts: SpoolParts) {
    const { settings, swept, identity, files, clock } = parts;
    const { directory } = settings;
    this.#o = settings;
    this.#nextSequence = swept.nextSequence;
    this.#opening = this.#newWriter(parts.newId(), 0n).projectedSize();
    const ledger = new Ledger({ clock, headroom: this.#opening, ...settings });
    ledger.adopt(swept.bytes);
    this.#ledger = ledger;
    const { sealed: packs, voids, nextSequence, unmended } = swept;
    this.shelf = new Shelf({ files, directory, ledger, identity, packs, voids, nextSequence });
    const note = (text: string, movedAside: boolean): void => this.#note(text, movedAside);
    const kick = (): void => this.#kick();
    this.#mender = new Mender({ files, directory, ledger, shelf: this.shelf, clock, unmended, note, kick });
    this.#movedAside = swept.notes.length;
    this.#lastError = swept.notes.at(-1) ?? null;
    if (this.#lastError !== null) parts.errors.note(this.#lastError);
  }

  /** Whether nothing is queued, open or waiting to be mended: whatever there is lies on the shelf. */
  get isSettled(): boolean {
    return this.#queue.length === 0 && this.#pumping === null && this.#pack === null && this.#mender.waiting === 0;
  }

  /**
   * Admits records: all of them or none. Resolves when there is room for them and the queue has taken them.
   * RECORD_INVALID (an id twice), RECORD_TOO_LARGE, SPOOL_FULL, ADMISSION_TIMEOUT, SPOOL_UNWRITABLE, STOPPED.
   */
  async append(records: readonly AdmittedRecord[]): Promise<Receipt> {
    if (this.#stopping !== null) throw this.#stopping;
    if (this.#broken !== null && this.parts.clock.now() < this.#broken.until) {
      throw this.#unwritable(this.#broken.cause, "was not taken");
    }
    for (const record of records) this.#checkFits(record);
    const receipt = new ReceiptKeeper(records.map(({ record }) => record.captureId));
    if (records.length === 0) return receipt;
    const bytes = records.reduce((sum, record) => sum + record.packBytes, 0);
    const memory = records.reduce((sum, record) => sum + record.memoryBytes, 0);
    await this.#ledger.admit(bytes, memory);
    try {
      this.#queue.push(records, receipt, (id) => this.#pack?.writer.has(id) === true);
    } catch (error) {
      this.#ledger.free(bytes);
      this.#ledger.dequeue(memory);
      throw error;
    }
    this.#kick();
    return receipt;
  }

  /** Writes and seals what was admitted before the call. Resolves also when the disk refused: look at `isSettled`. */
  seal(reason: SealReason): Promise<void> {
    return new Promise((done) => {
      this.#queue.pushBarrier({ reason, only: null, done }, "last");
      this.#kick();
    });
  }

  /** For the shelf's user: a pack was found to be bad and moved aside. */
  noteMovedAside(text: string): void {
    this.#note(text, true);
  }

  /** Room came free on the shelf: what waits for it may go on. */
  roomFreed(): void {
    if (this.#mender.waiting > 0) this.#kick();
  }

  status(): SpoolStatus {
    return {
      writerId: this.parts.identity.writerId,
      packs: this.shelf.packs.length,
      voids: this.shelf.voids.length,
      openRecords: this.#pack?.records ?? 0,
      queuedRecords: this.#queue.records,
      queuedBytes: this.#ledger.queued,
      waitingAppends: this.#ledger.waiting,
      unmended: this.#mender.waiting,
      bytes: this.#ledger.charged,
      peakBytes: this.#ledger.peak,
      maxBytes: this.#o.maxBytes,
      sealedPacks: { ...this.#sealedBy },
      salvagedOnStart: this.parts.swept.salvaged,
      movedAside: this.#movedAside,
      writeFailures: this.#writeFailures,
      refusedRecords: this.#refused,
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
    this.#stopping ??= new CaptureError("STOPPED", "the service has been stopped: nothing is appended any more.");
    this.#ledger.refuseAll(this.#stopping);
    this.#closing.abort();
    await this.seal("shutdown");
    await this.#pumping;
    await this.shelf.settled();
    await this.parts.ownership.release();
  }

  // The pump: one at a time, and the only code that touches the pack being written.

  #kick(): void {
    if (this.#pumping !== null) return;
    this.#pumping = this.#pump()
      .catch((error: unknown) => this.#collapse(error))
      .finally(() => {
        this.#pumping = null;
        if (this.#queue.length > 0) this.#kick();
      });
  }

  async #pump(): Promise<void> {
    // One turn of the microtask queue: appends of one turn of the caller then share a group.
    await Promise.resolve();
    for (;;) {
      await this.#mender.mend(this.#stopping !== null);
      const { head } = this.#queue;
      if (head === undefined) return;
      if (isBarrier(head)) await this.#passBarrier();
      else await this.#writeGroup();
    }
  }

  async #passBarrier(): Promise<void> {
    const barrier = this.#queue.takeBarrier();
    if (barrier === null) return;
    if (barrier.only === null || barrier.only === this.#pack) await this.#seal(barrier.reason);
    barrier.done();
  }

  async #writeGroup(): Promise<void> {
    let pack: PackFile;
    try {
      pack = this.#pack ?? (await this.#begin());
    } catch (error) {
      return this.#failed(error, this.#queue.takeGroup(null), true);
    }
    const before = pack.writer.projectedSize();
    const records = this.#o.maxPackRecords - pack.records;
    const group = this.#queue.takeGroup({ packBytes: this.#o.maxPackBytes - before, records });
    if (group.length === 0) return this.#seal("size");
    try {
      await pack.append(group.map(({ record }) => record));
      await pack.commit();
    } catch (error) {
      if (!this.#isAboutRecords(error, pack, group)) await this.#endFile(pack, error, group);
      return;
    }
    this.shelf.committed(pack.id.sequence);
    const grown = pack.writer.projectedSize() - before;
    this.#packCharge += grown;
    this.#failures = 0;
    this.#broken = null;
    for (const item of group) {
      this.#queue.forget(item);
      item.receipt.settleOne();
    }
    this.#ledger.settle(total(group, "packBytes"), grown);
    this.#ledger.dequeue(total(group, "memoryBytes"));
    if (pack.records >= this.#o.maxPackRecords) await this.#seal("records");
  }

  async #begin(): Promise<PackFile> {
    const id = { writerId: this.parts.identity.writerId, sequence: this.#nextSequence, packId: this.parts.newId() };
    const writer = this.#newWriter(id.packId, id.sequence);
    while (!this.#ledger.tryReserve(this.#opening)) {
      if (this.#stopping !== null) throw this.#stopping;
      await this.#ledger.roomChanged(this.#closing.signal);
    }
    let pack: PackFile;
    try {
      pack = await PackFile.begin(this.parts.files, this.#o.directory, id, { writer, codec: this.#o.codec });
    } catch (error) {
      this.#ledger.free(this.#opening);
      throw error;
    }
    // Taken only now: a number whose file could not be made is given to the next one.
    this.#nextSequence += 1n;
    this.#packCharge = this.#opening;
    this.#pack = pack;
    const onLinger = (): void => {
      this.#queue.pushBarrier({ reason: "linger", only: pack, done: () => undefined }, "first");
      this.#kick();
    };
    this.#linger = this.parts.clock.setTimer(this.#o.maxLingerMs, onLinger, { unref: true });
    return pack;
  }

  async #seal(reason: SealReason): Promise<void> {
    const pack = this.#pack;
    if (pack === null) return;
    if (pack.records === 0) return this.#endFile(pack, null, []);
    try {
      const sealed = await pack.seal();
      this.#drop();
      this.#ledger.settle(this.#packCharge, sealed.bytes);
      this.#sealedBy[reason] += 1;
      this.shelf.add(sealed);
    } catch (error) {
      await this.#endFile(pack, error, []);
    }
  }

  /** What concerns records and not the disk leaves the writer as it was. True when it was that. */
  #isAboutRecords(error: unknown, pack: PackFile, group: readonly Queued[]): boolean {
    const code = codeOf(error);
    if (code === "PACK_FULL" && pack.records > 0) {
      this.#queue.putBack(group);
      this.#queue.pushBarrier({ reason: "size", only: pack, done: () => undefined }, "first");
      return true;
    }
    if (code !== "RECORD_INVALID" && code !== "RECORD_TOO_LARGE" && code !== "PACK_FULL") return false;
    // One of them is to blame: each by itself shows which.
    if (group.length > 1) this.#queue.putBack(group.map((item) => ({ ...item, alone: true })));
    else for (const item of group) this.#refuse(item, error as Error);
    return true;
  }

  /** Ends the pack's file after a failure (or, without a cause, because nothing came into it). */
  async #endFile(pack: PackFile, cause: unknown, group: readonly Queued[]): Promise<void> {
    const { durableBytes: goodBytes, durableSealedBytes: sealedBytes } = pack;
    let charge = this.#packCharge;
    this.#drop();
    let named = true;
    try {
      const { kind, bytes } = await pack.giveUp();
      this.#ledger.settle(charge, bytes);
      charge = bytes;
      if (kind === "void") this.shelf.addVoid(pack.id);
    } catch (error) {
      named = false;
      this.#note(`a spool file could not be set aside after a failure: ${describe(error)}`, false);
    }
    // Unnamed and without an acknowledged byte it is a begun file still, which the next start voids.
    if (goodBytes > 0) {
      const name = formatName(named ? { kind: "failed", ...pack.id, goodBytes } : { kind: "open", ...pack.id });
      this.#mender.add({ ...pack.id, name, goodBytes, sealedBytes }, charge);
    }
    if (cause !== null) await this.#failed(cause, group, named);
  }

  /**
   * The disk refused a group. Its records go on in the next pack once (`movable`: no start will read them from the old file);
   * after that they are refused, and so are appends for a while.
   */
  async #failed(cause: unknown, group: readonly Queued[], movable: boolean): Promise<void> {
    if (cause === this.#stopping) {
      for (const item of group) this.#refuse(item, this.#stopping as Error);
      return;
    }
    this.#failures += 1;
    this.#writeFailures += 1;
    this.#note(`writing to spool.directory failed: ${describe(cause)}`, false);
    const again = group.filter((item) => movable && item.tries === 0);
    for (const item of group) if (!again.includes(item)) this.#refuse(item, this.#unwritable(cause, "is not durable"));
    this.#queue.putBack(again.map((item) => ({ ...item, tries: 1 })));
    if (this.#failures < 2) return;
    const wait = backoffMs(this.#failures);
    this.#broken = { until: this.parts.clock.now() + wait, cause };
    await this.parts.clock.sleep(wait, { signal: this.#closing.signal }).catch(() => undefined);
  }

  #newWriter(packId: string, sequence: bigint): PackWriter {
    const { schema, codec } = this.#o;
    return createPackWriter({ schema, codec, packId, sequence, writerId: this.parts.identity.writerId });
  }

  #drop(): void {
    this.#pack = null;
    this.#linger?.cancel();
    this.#linger = null;
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

  #refuse(item: Queued, error: Error): void {
    this.#queue.forget(item);
    this.#refused += 1;
    item.receipt.refuse(error);
    this.#ledger.free(item.packBytes);
    this.#ledger.dequeue(item.memoryBytes);
  }

  #unwritable(cause: unknown, fate: string): CaptureError {
    const code = codeOf(cause) ?? "an unknown error";
    return new CaptureError(
      "SPOOL_UNWRITABLE",
      `spool.directory ${this.#o.directory} cannot be written (${code}): the record ${fate}. Free space or repair the ` +
        `disk, then append it again.`,
      { cause },
    );
  }

  #note(text: string, movedAside: boolean): void {
    this.#lastError = text;
    this.parts.errors.note(text);
    if (movedAside) this.#movedAside += 1;
  }

  /** A defect in the pump: nothing is known about what was queued, so it is refused, and so is all that follows. */
  #collapse(error: unknown): void {
    this.#note(`the spool failed: ${describe(error)}`, false);
    this.#stopping ??= new CaptureError("SPOOL_UNWRITABLE", `the spool failed: ${describe(error)}`, { cause: error });
    for (const item of this.#queue.takeAll()) {
      if (isBarrier(item)) item.done();
      else this.#refuse(item, this.#stopping);
    }
    this.#ledger.refuseAll(this.#stopping);
  }
}
