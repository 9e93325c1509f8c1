import { readBlockHeader, type BlockHeader } from "./block.js";
import { bufferOver } from "./byte-cursor.js";
import { PackError, shown } from "./errors.js";
import { alignUp, frameBytes, hasMagic, readPackHeader } from "./layout.js";
import { readMetadata, type RecordMetadata } from "./metadata.js";
import { PackState } from "./pack-state.js";
import { schemaFromBytes } from "./schema.js";
import { crcOf } from "./slices.js";
import { Window, type ByteSource } from "./source.js";

/** A record block that was read and checked, its payloads still stored as they are. */
export interface ScannedBlock {
  readonly offset: number;
  readonly header: BlockHeader;
  readonly bytes: Uint8Array;
  readonly records: readonly RecordMetadata[];
}

/** Reads a pack from its front, block by block, and rebuilds the writer's state as it goes. */
export class PackScan {
  readonly state: PackState;
  readonly window: Window;
  readonly #rules: "check" | "trust";

  private constructor(state: PackState, window: Window, rules: "check" | "trust") {
    this.state = state;
    this.window = window;
    this.#rules = rules;
  }

  /**
   * Reads pack header and schema block. Any problem there is thrown: no record can be read without them. With rules
   * "trust" a block whose checksum is right counts as good even if this release would not take its records.
   */
  static async open(source: ByteSource, rules: "check" | "trust" = "check"): Promise<PackScan> {
    const window = new Window(source);
    const head = await window.bytes(0, Math.min(frameBytes, window.size));
    const header = readPackHeader(head);
    const offset = alignUp(frameBytes, header.alignment);
    const block = await readBlock(window, { packId: header.packId, number: 0, alignment: header.alignment, offset });
    const schema = schemaFromBytes(block.bytes.subarray(frameBytes, frameBytes + block.header.metadataBytes));
    if (schema.id !== header.schemaId) {
      throw new PackError(
        "PACK_CORRUPT",
        `the header is of schema ${header.schemaId} and the schema block of ${schema.id}`,
        { offset },
      );
    }
    const state = new PackState(header, schema);
    // The rest of the opening is padding: it must be what a writer writes, or the salvaged pack would not be the same.
    const opening = await window.bytes(0, state.size);
    if (Buffer.compare(opening, state.opening) !== 0) {
      throw new PackError("PACK_CORRUPT", "the bytes around header and schema are not what a writer writes", {
        offset: 0,
      });
    }
    return new PackScan(state, window, rules);
  }

  /**
   * The next block, or null when the blocks end here: at the end of the source, or where an index begins. Throws a
   * PackError at the first bad block, and again whenever it is called then.
   */
  async next(): Promise<ScannedBlock | null> {
    const offset = this.state.size;
    const left = this.window.size - offset;
    if (left === 0) return null;
    if (left >= 4 && hasMagic(await this.window.bytes(offset, 4), "index")) return null;
    const { packId, alignment } = this.state.header;
    const block = await readBlock(this.window, { packId, number: this.state.nextBlock, alignment, offset });
    const { header, bytes } = block;
    const records = readMetadata(this.state.schema, bytes.subarray(frameBytes, frameBytes + header.metadataBytes), {
      count: header.recordCount,
      payloadBytes: header.payloadBytes,
      offset: offset + frameBytes,
      rules: this.#rules,
    });
    const captureIds = records.map((record) => record.captureId);
    const fresh = new Set(captureIds);
    for (const captureId of captureIds) {
      if (!fresh.delete(captureId) || this.state.has(captureId)) {
        throw new PackError("PACK_CORRUPT", `captureId ${shown(captureId)} comes twice`, { offset });
      }
    }
    if (!this.state.hasRoom(header.recordCount, frameBytes + header.metadataBytes)) {
      throw new PackError("PACK_CORRUPT", `block ${header.number} at byte ${offset} goes over the limits of a pack`, {
        offset,
      });
    }
    await this.state.append(bytes, header, captureIds);
    return { offset, header, bytes, records };
  }
}

async function readBlock(
  window: Window,
  expected: { packId: string; number: number; alignment: number; offset: number },
) {
  const { offset, number } = expected;
  const left = window.size - offset;
  const cut = (needed: number): PackError =>
    new PackError("PACK_TRUNCATED", `block ${number} at byte ${offset} needs ${needed} bytes and ${left} are left`, {
      offset,
    });
  if (left < frameBytes) throw cut(frameBytes);
  const header = readBlockHeader(await window.bytes(offset, frameBytes), expected);
  if (header.blockBytes > left) throw cut(header.blockBytes);
  const bytes = bufferOver(await window.bytes(offset, header.blockBytes));
  const crc = await crcOf(bytes.subarray(frameBytes));
  if (crc === header.bodyCrc32) return { header, bytes };
  throw new PackError("PACK_CORRUPT", `block ${number} at byte ${offset} fails its checksum`, { offset });
}
