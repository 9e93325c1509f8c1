import { PackError, shown } from "./errors.js";
import { limits } from "./limits.js";
import { MetadataBuilder } from "./metadata.js";
import type { CaptureRecord } from "./record.js";
import type { CompiledSchema } from "./schema.js";
import { Breather, crcOf, recordWork } from "./slices.js";

/** One block before it is bytes. */
export interface Draft {
  readonly records: readonly CaptureRecord[];
  /** The CRC of each payload. */
  readonly crcs: readonly number[];
  readonly metadata: Buffer;
}

/** Collects records until the block is full. */
class DraftBuilder {
  readonly #metadata: MetadataBuilder;
  readonly #records: CaptureRecord[] = [];
  readonly #crcs: number[] = [];
  #payloadBytes = 0;

  constructor(schema: CompiledSchema) {
    this.#metadata = new MetadataBuilder(schema);
  }

  get metadataBytes(): number {
    return this.#metadata.bytes;
  }

  /** False when the block has no room for one more; the first record always has its place. */
  add(record: CaptureRecord, crc: number): boolean {
    this.#metadata.add(record, crc);
    const [count, payloadBytes] = [this.#records.length + 1, this.#payloadBytes + record.payload.byteLength];
    const fits = count <= limits.blockRecords && this.#metadata.bytes + payloadBytes <= limits.blockBytes;
    if (count > 1 && !fits) {
      this.#metadata.undo();
      return false;
    }
    this.#records.push(record);
    this.#crcs.push(crc);
    this.#payloadBytes = payloadBytes;
    return true;
  }

  build(): Draft {
    return { records: this.#records, crcs: this.#crcs, metadata: this.#metadata.build() };
  }
}

/**
 * Puts checked records into blocks, in order, each as full as it can be. Throws RECORD_TOO_LARGE for a record whose
 * metadata alone is over the limit.
 */
export async function draftBlocks(schema: CompiledSchema, records: readonly CaptureRecord[]): Promise<Draft[]> {
  const drafts: Draft[] = [];
  const breather = new Breather();
  let current: DraftBuilder | null = null;
  for (const record of records) {
    const crc = await crcOf(record.payload);
    if (current === null || !current.add(record, crc)) {
      if (current !== null) drafts.push(current.build());
      current = new DraftBuilder(schema);
      current.add(record, crc);
      if (current.metadataBytes > limits.metadataBytes) throw tooLarge(record, current.metadataBytes);
    }
    await breather.after(record.payload.byteLength + recordWork);
  }
  if (current !== null) drafts.push(current.build());
  return drafts;
}

function tooLarge(record: CaptureRecord, bytes: number): PackError {
  return new PackError(
    "RECORD_TOO_LARGE",
    `the fields of record ${shown(record.captureId)} take ${bytes} bytes and may take ${limits.metadataBytes}: ` +
      "large values belong into the payload",
    { field: "fields" },
  );
}
