import type { AdmittedRecord } from "../records.js";
import { CaptureError } from "../errors.js";
import type { PackFile } from "./pack-file.js";
import type { ReceiptKeeper } from "./receipt.js";

/** Why a pack was sealed. */
export type SealReason = "size" | "records" | "linger" | "manual" | "shutdown";

/** A record on its way to disk. `alone`: to be written by itself, because a group with it was refused. */
export type Queued = AdmittedRecord & {
  readonly receipt: ReceiptKeeper;
  readonly tries: number;
  readonly alone: boolean;
};

/** A point in the queue at which the pack is sealed (`only`: if it is still this one). */
export type Barrier = { readonly reason: SealReason; readonly only: PackFile | null; readonly done: () => void };

type Item = Queued | Barrier;
export const isBarrier = (item: Item): item is Barrier => "done" in item;

/** Bytes that one group commit writes at most, one larger record aside. */
const groupBytes = 4 * 1024 * 1024;

/** What a pack still takes; null: no pack yet. */
export type Room = { readonly packBytes: number; readonly records: number } | null;

/** Records and seal points in the order in which they came. */
export class Queue {
  #items: Item[] = [];
  readonly #ids = new Set<string>();

  get length(): number {
    return this.#items.length;
  }
  get records(): number {
    return this.#ids.size;
  }
  get head(): Item | undefined {
    return this.#items[0];
  }

  /** RECORD_INVALID when an id is queued, in the pack being written (`inPack`), or twice in the list; then nothing is queued. */
  push(records: readonly AdmittedRecord[], receipt: ReceiptKeeper, inPack: (captureId: string) => boolean): void {
    const fresh = new Set(receipt.captureIds);
    const twice = receipt.captureIds.find((id) => this.#ids.has(id) || inPack(id) || !fresh.delete(id));
    if (twice !== undefined) {
      throw new CaptureError(
        "RECORD_INVALID",
        `captureId ${twice} was appended before: each record needs an id of its own.`,
      );
    }
    for (const record of records) this.#items.push({ ...record, receipt, tries: 0, alone: false });
    for (const id of receipt.captureIds) this.#ids.add(id);
  }

  pushBarrier(barrier: Barrier, where: "first" | "last"): void {
    if (where === "first") this.#items.unshift(barrier);
    else this.#items.push(barrier);
  }

  /** The barrier at the head, taken off; null when a record or nothing is there. */
  takeBarrier(): Barrier | null {
    const [head] = this.#items;
    if (head === undefined || !isBarrier(head)) return null;
    this.#items.shift();
    return head;
  }

  /** Takes from the head what goes into one commit; nothing when the first record does not fit `room`. */
  takeGroup(room: Room): Queued[] {
    let [count, bytes, packBytes] = [0, 0, 0];
    for (const item of this.#items) {
      if (isBarrier(item) || (item.alone && count > 0)) break;
      packBytes += item.packBytes;
      if (room !== null && (packBytes > room.packBytes || count >= room.records)) break;
      if (count > 0 && bytes + item.memoryBytes > groupBytes) break;
      bytes += item.memoryBytes;
      count += 1;
      if (item.alone) break;
    }
    return this.#items.splice(0, count) as Queued[];
  }

  /** Puts a taken group back to the head. */
  putBack(group: readonly Queued[]): void {
    this.#items.unshift(...group);
  }

  /** A record has left for good: durable or refused. */
  forget(item: Queued): void {
    this.#ids.delete(item.record.captureId);
  }

  /** Everything, taken off. */
  takeAll(): Item[] {
    return this.#items.splice(0);
  }
}

export function total(group: readonly Queued[], what: "packBytes" | "memoryBytes"): number {
  return group.reduce((sum, item) => sum + item[what], 0);
}
