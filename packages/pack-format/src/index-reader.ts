import { crcOn } from "./crc.js";
import { readBlockHeader } from "./block.js";
import { bufferOver } from "./byte-cursor.js";
import { PackError, shown } from "./errors.js";
import type { FieldValue } from "./field-types.js";
import {
  alignUp,
  checkVersion,
  frameBytes,
  hasMagic,
  indexHeadBytes,
  readPackHeader,
  readTrailer,
  type PackHeader,
  type Trailer,
} from "./layout.js";
import { readMetadata } from "./metadata.js";
import { locate, type RecordLocator } from "./payload.js";
import type { Scope } from "./record.js";
import { schemaFromBytes, type CaptureSchema, type CompiledSchema } from "./schema.js";
import { Breather, inSlices, recordWork } from "./slices.js";
import { readExactly, sizeOf, type ByteSource } from "./source.js";

/** A record as the index of its pack has it: all but the payload, and where that lies. */
export interface IndexedRecord {
  readonly captureId: string;
  readonly capturedAtNs: bigint;
  readonly scope: Scope;
  readonly fields: Readonly<Record<string, FieldValue>>;
  readonly locator: RecordLocator;
}

/** The index of a pack. */
export interface PackIndex {
  readonly header: PackHeader;
  readonly schema: CaptureSchema;
  /** In the order in which they were written. */
  readonly records: readonly IndexedRecord[];
  readonly packSize: number;
  /** SHA-256, in hex, of everything before the trailer, as the trailer states it; reading the index does not check it. */
  readonly bodySha256: string;
}

/**
 * Reads the index of a sealed pack with two reads: the trailer, then the index. Every record in it was checked against
 * the schema that the index carries, every locator lies inside the pack, and capture ids are unique. The payloads are
 * not looked at.
 *
 * Throws PACK_TRUNCATED (no trailer: cut or never sealed), PACK_CORRUPT, PACK_VERSION_UNSUPPORTED, UNSUPPORTED_CODEC,
 * SCHEMA_INVALID, RECORD_INVALID; and what the source rejects with, as it is.
 */
export async function readPackIndex(source: ByteSource): Promise<PackIndex> {
  const packSize = sizeOf(source);
  if (packSize < 2 * frameBytes) {
    throw new PackError("PACK_TRUNCATED", `a pack has more than ${2 * frameBytes} bytes; this one has ${packSize}`, {
      offset: 0,
    });
  }
  const trailer = readTrailer(await readExactly(source, packSize - frameBytes, frameBytes), packSize);
  const bytes = bufferOver(await readExactly(source, trailer.indexOffset, trailer.indexBytes));
  const walk = new IndexWalk(bytes, trailer);
  await inSlices(bytes, (slice) => walk.hash(slice));
  const { header, schema } = walk.open();
  const records = await walk.records();
  return { header, schema: schema.schema, records, packSize, bodySha256: trailer.bodySha256 };
}

/** Walks through the bytes of an index and keeps count of where in the pack the blocks lie that it speaks of. */
class IndexWalk {
  readonly #bytes: Buffer;
  readonly #trailer: Trailer;
  #crc = 0;
  #at = 0;
  #blockCount = 0;
  #blockOffset = 0;
  #pack: { header: PackHeader; schema: CompiledSchema } | null = null;

  constructor(bytes: Buffer, trailer: Trailer) {
    this.#bytes = bytes;
    this.#trailer = trailer;
  }

  hash(slice: Uint8Array): void {
    this.#crc = crcOn(slice, this.#crc);
  }

  open(): { header: PackHeader; schema: CompiledSchema } {
    const start = this.#trailer.indexOffset;
    if (this.#crc !== this.#trailer.indexCrc32) throw this.#corrupt("the index fails its checksum");
    const head = this.#take(indexHeadBytes, "index head");
    if (!hasMagic(head, "index")) throw this.#corrupt("no index begins where the trailer says");
    checkVersion(head, start);
    if (head.readUInt32LE(8) !== this.#trailer.recordCount) throw this.#corrupt("index and trailer count differently");
    this.#blockCount = head.readUInt32LE(12);
    const header = readPackHeader(this.#take(frameBytes, "pack header"), start + indexHeadBytes);
    this.#blockOffset = alignUp(frameBytes, header.alignment);
    const { metadata } = this.#block(header, 0);
    const schema = schemaFromBytes(metadata);
    if (schema.id !== header.schemaId) throw this.#corrupt(`header and schema do not belong together`);
    this.#pack = { header, schema };
    return this.#pack;
  }

  async records(): Promise<IndexedRecord[]> {
    const { header, schema } = this.#pack ?? this.open();
    const records: IndexedRecord[] = [];
    const captureIds = new Set<string>();
    const breather = new Breather();
    for (let number = 1; number < this.#blockCount; number += 1) {
      const offset = this.#blockOffset;
      const { block, metadata, metadataOffset } = this.#block(header, number);
      const { recordCount: count, payloadBytes } = block;
      const expected = { count, payloadBytes, offset: metadataOffset, rules: "check" } as const;
      const found = readMetadata(schema, metadata, expected);
      const locators = locate(found, block, offset, header.alignment);
      for (const [index, { captureId, capturedAtNs, scope, fields }] of found.entries()) {
        if (captureIds.has(captureId)) throw this.#corrupt(`captureId ${shown(captureId)} comes twice`);
        captureIds.add(captureId);
        const locator = locators[index];
        if (locator !== undefined) records.push({ captureId, capturedAtNs, scope, fields, locator });
      }
      await breather.after(found.length * recordWork);
    }
    if (this.#at !== this.#bytes.length) throw this.#corrupt(`${this.#bytes.length - this.#at} bytes are left over`);
    if (this.#blockOffset !== this.#trailer.indexOffset)
      throw this.#corrupt("the blocks do not end where the index begins");
    if (records.length !== this.#trailer.recordCount) throw this.#corrupt(`it has ${records.length} records`);
    return records;
  }

  #block(header: PackHeader, number: number) {
    const offset = this.#blockOffset;
    const { packId, alignment } = header;
    const block = readBlockHeader(this.#take(frameBytes, "block header"), { packId, number, alignment, offset });
    const metadataOffset = this.#trailer.indexOffset + this.#at;
    const metadata = this.#take(block.metadataBytes, "metadata");
    this.#blockOffset += block.blockBytes;
    if (this.#blockOffset > this.#trailer.indexOffset) throw this.#corrupt(`block ${number} reaches into the index`);
    return { block, metadata, metadataOffset };
  }

  #take(length: number, what: string): Buffer {
    const end = this.#at + length;
    if (end > this.#bytes.length) throw this.#corrupt(`it ends within a ${what}`);
    const bytes = this.#bytes.subarray(this.#at, end);
    this.#at = end;
    return bytes;
  }

  #corrupt(what: string): PackError {
    const offset = this.#trailer.indexOffset + this.#at;
    return new PackError("PACK_CORRUPT", `index of the pack, at byte ${offset}: ${what}`, { offset });
  }
}
