import type { Clock, Timer } from "@holdfast/deadline-http";
import { createPackWriter, type CaptureSchema, type Codec, type PackWriter } from "@holdfast/pack-format";
import { CaptureError, codeOf, describe } from "../errors.js";
import type { SpoolFiles } from "./files.js";
import type { Ledger } from "./ledger.js";
import type { Mender } from "./mender.js";
import { formatName } from "./names.js";
import { PackFile } from "./pack-file.js";
import { isBarrier, Queue, total, type Queued, type SealReason } from "./queue.js";
import type { Shelf } from "./shelf.js";

export type PumpSettings = {
  readonly directory: string;
  readonly schema: CaptureSchema;
  readonly codec: Codec;
  readonly maxPackBytes: number;
  readonly maxPackRecords: number;
  readonly maxLingerMs: number;
};

export type PumpParts = {
  readonly settings: PumpSettings;
  readonly files: SpoolFiles;
  readonly clock: Clock;
  readonly newId: () => string;
  readonly writerId: string;
  readonly nextSequence: bigint;
  readonly ledger: Ledger;
  readonly shelf: Shelf;
  readonly mender: Mender;
  readonly note: (text: string) => void;
};

const backoffMs = (failures: number): number => Math.min(5_000, 100 * 2 ** Math.max(0, failures - 2));

/** Begins a pack in memory. */
export function newWriter(o: PumpSettings, id: { writerId: string; packId: string; sequence: bigint }): PackWriter {
  return createPackWriter({ schema: o.schema, codec: o.codec, ...id });
}

/**
 * Takes records from the queue to disk: one group commit at a time, and the only code that touches the pack being written.
 *
 * Safety: a receipt resolves only after the group's bytes were written and fdatasynced under a name that is durable. A failed
 * write or fdatasync ends its file, whose name then says durably how much of it counts, and only after that are its
 * unacknowledged records written elsewhere. So each record is in one pack, and acknowledged ones are in a pack that every
 * later start seals to the same bytes.
 */
export class Pump {
  readonly queue = new Queue();
  readonly counters = {
    sealed: { size: 0, records: 0, linger: 0, manual: 0, shutdown: 0 } satisfies Record<SealReason, number>,
    writeFailures: 0,
    refused: 0,
  };
  readonly #o: PumpSettings;
  /** Bytes of a pack before its first record. */
  readonly #opening: number;
  #nextSequence: bigint;
  #pack: PackFile | null = null;
  #packCharge = 0;
  #linger: Timer | null = null;
  #running: Promise<void> | null = null;
  #failures = 0;
  #broken: { readonly until: number; readonly cause: unknown } | null = null;
  #stopping: CaptureError | null = null;
  readonly #closing = new AbortController();

  constructor(private readonly parts: PumpParts) {
    this.#o = parts.settings;
    this.#nextSequence = parts.nextSequence;
    const { writerId, newId } = parts;
    this.#opening = newWriter(this.#o, { writerId, packId: newId(), sequence: 0n }).projectedSize();
  }

  /** Whether nothing is queued or open. */
  get isIdle(): boolean {
    return this.queue.length === 0 && this.#running === null && this.#pack === null;
  }
  get openRecords(): number {
    return this.#pack?.records ?? 0;
  }
  /** Why nothing is taken now: stopped, or the disk refused just before. Null when records are taken. */
  get refusal(): CaptureError | null {
    if (this.#stopping !== null || this.#broken === null) return this.#stopping;
    return this.parts.clock.now() < this.#broken.until ? this.#unwritable(this.#broken.cause, "was not taken") : null;
  }
  /** Whether the pack being written has a record of this id. */
  has(captureId: string): boolean {
    return this.#pack?.writer.has(captureId) === true;
  }

  /** From now on nothing waits: what is queued is written or refused. */
  stop(why: CaptureError): void {
    this.#stopping ??= why;
    this.#closing.abort();
  }

  /** Resolves when it does nothing. */
  async idle(): Promise<void> {
    await this.#running;
  }

  /** Lets it work on what there is. */
  kick(): void {
    if (this.#running !== null) return;
    this.#running = this.#run()
      .catch((error: unknown) => this.#collapse(error))
      .finally(() => {
        this.#running = null;
        if (this.queue.length > 0) this.kick();
      });
  }

  async #run(): Promise<void> {
    // One turn of the microtask queue: appends of one turn of the caller then share a group.
    await Promise.resolve();
    for (;;) {
      await this.parts.mender.mend(this.#stopping !== null);
      const { head } = this.queue;
      if (head === undefined) return;
      if (isBarrier(head)) await this.#passBarrier();
      else await this.#writeGroup();
    }
  }

  async #passBarrier(): Promise<void> {
    const barrier = this.queue.takeBarrier();
    if (barrier === null) return;
    if (barrier.only === null || barrier.only === this.#pack) await this.#seal(barrier.reason);
    barrier.done();
  }

  async #writeGroup(): Promise<void> {
    let pack: PackFile;
    try {
      pack = this.#pack ?? (await this.#begin());
    } catch (error) {
      return this.#failed(error, this.queue.takeGroup(null), true);
    }
    const before = pack.writer.projectedSize();
    const records = this.#o.maxPackRecords - pack.records;
    const group = this.queue.takeGroup({ packBytes: this.#o.maxPackBytes - before, records });
    if (group.length === 0) return this.#seal("size");
    try {
      await pack.append(group.map(({ record }) => record));
      await pack.commit();
    } catch (error) {
      if (!this.#isAboutRecords(error, pack, group)) await this.#endFile(pack, error, group);
      return;
    }
    this.parts.shelf.committed(pack.id.sequence);
    const grown = pack.writer.projectedSize() - before;
    this.#packCharge += grown;
    this.#failures = 0;
    this.#broken = null;
    for (const item of group) {
      this.queue.forget(item);
      item.receipt.settleOne();
    }
    this.parts.ledger.settle(total(group, "packBytes"), grown);
    this.parts.ledger.dequeue(total(group, "memoryBytes"));
    if (pack.records >= this.#o.maxPackRecords) await this.#seal("records");
  }

  async #begin(): Promise<PackFile> {
    const id = { writerId: this.parts.writerId, sequence: this.#nextSequence, packId: this.parts.newId() };
    const writer = newWriter(this.#o, id);
    while (!this.parts.ledger.tryReserve(this.#opening)) {
      if (this.#stopping !== null) throw this.#stopping;
      await this.parts.ledger.roomChanged(this.#closing.signal);
    }
    let pack: PackFile;
    try {
      pack = await PackFile.begin(this.parts.files, this.#o.directory, id, { writer, codec: this.#o.codec });
    } catch (error) {
      this.parts.ledger.free(this.#opening);
      throw error;
    }
    // Taken only now: a number whose file could not be made is given to the next one.
    this.#nextSequence += 1n;
    this.#packCharge = this.#opening;
    this.#pack = pack;
    const onLinger = (): void => {
      this.queue.pushBarrier({ reason: "linger", only: pack, done: () => undefined }, "first");
      this.kick();
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
      this.parts.ledger.settle(this.#packCharge, sealed.bytes);
      this.counters.sealed[reason] += 1;
      this.parts.shelf.add(sealed);
    } catch (error) {
      await this.#endFile(pack, error, []);
    }
  }

  /** What concerns records and not the disk leaves the writer as it was. True when it was that. */
  #isAboutRecords(error: unknown, pack: PackFile, group: readonly Queued[]): boolean {
    const code = codeOf(error);
    if (code === "PACK_FULL" && pack.records > 0) {
      this.queue.putBack(group);
      this.queue.pushBarrier({ reason: "size", only: pack, done: () => undefined }, "first");
      return true;
    }
    if (code !== "RECORD_INVALID" && code !== "RECORD_TOO_LARGE" && code !== "PACK_FULL") return false;
    // One of them is to blame: each by itself shows which.
    if (group.length > 1) this.queue.putBack(group.map((item) => ({ ...item, alone: true })));
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
      this.parts.ledger.settle(charge, bytes);
      charge = bytes;
      if (kind === "void") this.parts.shelf.addVoid(pack.id);
    } catch (error) {
      named = false;
      this.parts.note(`a spool file could not be set aside after a failure: ${describe(error)}`);
    }
    // Unnamed and without an acknowledged byte it is a begun file still, which the next start voids.
    if (goodBytes > 0) {
      const name = formatName(named ? { kind: "failed", ...pack.id, goodBytes } : { kind: "open", ...pack.id });
      this.parts.mender.add({ ...pack.id, name, goodBytes, sealedBytes }, charge);
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
    this.counters.writeFailures += 1;
    this.parts.note(`writing to spool.directory failed: ${describe(cause)}`);
    const again = group.filter((item) => movable && item.tries === 0);
    for (const item of group) if (!again.includes(item)) this.#refuse(item, this.#unwritable(cause, "is not durable"));
    this.queue.putBack(again.map((item) => ({ ...item, tries: 1 })));
    if (this.#failures < 2) return;
    const wait = backoffMs(this.#failures);
    this.#broken = { until: this.parts.clock.now() + wait, cause };
    await this.parts.clock.sleep(wait, { signal: this.#closing.signal }).catch(() => undefined);
  }

  #drop(): void {
    this.#pack = null;
    this.#linger?.cancel();
    this.#linger = null;
  }

  #refuse(item: Queued, error: Error): void {
    this.queue.forget(item);
    this.counters.refused += 1;
    item.receipt.refuse(error);
    this.parts.ledger.free(item.packBytes);
    this.parts.ledger.dequeue(item.memoryBytes);
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

  /** A defect in the pump: nothing is known about what was queued, so it is refused, and so is all that follows. */
  #collapse(error: unknown): void {
    this.parts.note(`the spool failed: ${describe(error)}`);
    this.#stopping ??= new CaptureError("SPOOL_UNWRITABLE", `the spool failed: ${describe(error)}`, { cause: error });
    for (const item of this.queue.takeAll()) {
      if (isBarrier(item)) item.done();
      else this.#refuse(item, this.#stopping);
    }
    this.parts.ledger.refuseAll(this.#stopping);
  }
}
