import { createHash, type Hash } from "node:crypto";
import { crcOn } from "./crc.js";
import { encodeBlockHeader, blockLength, type BlockHeader } from "./block.js";
import { plain } from "./byte-cursor.js";
import { PackError } from "./errors.js";
import {
  alignUp,
  encodeHeader,
  encodeTrailer,
  frameBytes,
  indexHeadBytes,
  writeMagic,
  type PackHeader,
} from "./layout.js";
import { limits } from "./limits.js";
import type { CompiledSchema } from "./schema.js";
import { Breather, inSlices, recordWork } from "./slices.js";

/** What `finish()` gives: the bytes to append, and the identity of the object that they complete. */
export type SealedTail = {
  /** Index and trailer. */
  readonly bytes: Uint8Array;
  /** Bytes of the whole pack. */
  readonly packSize: number;
  /** SHA-256 of the whole pack, in hex. */
  readonly packSha256: string;
  readonly recordCount: number;
};

/**
 * Everything about the pack so far that its tail needs. The tail is a function of this and of nothing else (no clock, no
 * chance, no compressor), and this is a function of the bytes so far: that is why a salvaged pack seals to the same
 * object as one that was never interrupted.
 */
export class PackState {
  readonly header: PackHeader;
  readonly schema: CompiledSchema;
  /** Pack header, schema block and the padding after each. */
  readonly opening: Uint8Array;
  #hash: Hash;
  #size: number;
  #recordCount = 0;
  #blockCount = 1;
  /** The index: what it says of each block is the block's header and metadata, verbatim. */
  #indexParts: Uint8Array[];
  #indexBytes: number;
  readonly #captureIds = new Set<string>();
  readonly #breather = new Breather();

  constructor(header: PackHeader, schema: CompiledSchema) {
    this.header = header;
    this.schema = schema;
    const headerBytes = encodeHeader(header);
    const block = encodeSchemaBlock(header, schema);
    const start = alignUp(frameBytes, header.alignment);
    const opening = Buffer.alloc(start + block.length);
    opening.set(headerBytes);
    opening.set(block, start);
    this.opening = plain(opening);
    this.#hash = createHash("sha256").update(opening);
    this.#size = opening.length;
    this.#indexParts = [headerBytes, block.subarray(0, frameBytes + schema.bytes.length)];
    this.#indexBytes = indexHeadBytes + frameBytes + frameBytes + schema.bytes.length;
  }

  get size(): number {
    return this.#size;
  }

  get recordCount(): number {
    return this.#recordCount;
  }

  /** The number that the next block has. */
  get nextBlock(): number {
    return this.#blockCount;
  }

  get sealedSize(): number {
    return this.#size + this.#indexBytes + frameBytes;
  }

  has(captureId: string): boolean {
    return this.#captureIds.has(captureId);
  }

  /** Whether so many more records and bytes of index keep within the limits of a pack. */
  hasRoom(records: number, indexBytes: number): boolean {
    return this.#recordCount + records <= limits.packRecords && this.#indexBytes + indexBytes <= limits.indexBytes;
  }

  /** Throws PACK_FULL when there is no room for so much more. */
  checkRoom(records: number, indexBytes: number): void {
    if (this.hasRoom(records, indexBytes)) return;
    throw new PackError(
      "PACK_FULL",
      `the pack would have ${this.#recordCount + records} records (at most ${limits.packRecords}) and ` +
        `${this.#indexBytes + indexBytes} bytes of index (at most ${limits.indexBytes}): seal it and go on in a new pack`,
    );
  }

  /** Takes in one block that was checked: its bytes, header and the ids of its records. */
  async append(block: Uint8Array, header: BlockHeader, captureIds: readonly string[]): Promise<void> {
    await inSlices(block, (slice) => void this.#hash.update(slice));
    await this.#breather.after(block.length + captureIds.length * recordWork);
    // A copy: a view would keep the whole block in memory until the pack is sealed.
    const part = Uint8Array.prototype.slice.call(block, 0, frameBytes + header.metadataBytes);
    this.#indexParts.push(part);
    this.#indexBytes += part.length;
    this.#size += block.length;
    this.#recordCount += header.recordCount;
    this.#blockCount += 1;
    for (const captureId of captureIds) this.#captureIds.add(captureId);
  }

  /** Index and trailer of the pack as it is now. */
  async seal(): Promise<SealedTail> {
    const tail = Buffer.allocUnsafeSlow(this.#indexBytes + frameBytes);
    tail.fill(0, 0, indexHeadBytes);
    writeMagic(tail, "index");
    tail.writeUInt32LE(this.#recordCount, 8);
    tail.writeUInt32LE(this.#blockCount, 12);
    const breather = new Breather();
    let at = indexHeadBytes;
    for (const part of this.#indexParts) {
      tail.set(part, at);
      at += part.length;
      await breather.after(part.length);
    }
    const hash = this.#hash.copy();
    let indexCrc32 = 0;
    await inSlices(tail.subarray(0, at), (slice) => {
      hash.update(slice);
      indexCrc32 = crcOn(slice, indexCrc32);
    });
    const bodySha256 = hash.copy().digest("hex");
    const recordCount = this.#recordCount;
    const trailer = encodeTrailer({ indexOffset: this.#size, indexBytes: at, recordCount, indexCrc32, bodySha256 });
    tail.set(trailer, at);
    const packSha256 = hash.update(trailer).digest("hex");
    return { bytes: plain(tail), packSize: this.#size + tail.length, packSha256, recordCount };
  }
}

function encodeSchemaBlock(pack: PackHeader, schema: CompiledSchema): Buffer {
  const parts = { codec: "none", metadataBytes: schema.bytes.length, storedBytes: 0 } as const;
  const block = Buffer.alloc(blockLength(parts, pack.alignment));
  block.set(schema.bytes, frameBytes);
  const header: BlockHeader = {
    ...parts,
    number: 0,
    packId: pack.packId,
    kind: "schema",
    recordCount: 0,
    payloadBytes: 0,
    blockBytes: block.length,
    bodyCrc32: crcOn(block.subarray(frameBytes)),
  };
  encodeBlockHeader(header, block);
  return block;
}
