import { PackError } from "./errors.js";
import { decodeBlock, locate } from "./payload.js";
import type { CaptureRecord } from "./record.js";
import { PackScan } from "./scan.js";
import type { ByteSource } from "./source.js";

/**
 * Reads a pack from front to back and gives every record, payload included, in order: also of a pack that was cut or
 * never sealed. All records of the blocks before the first bad one come exactly as they were written; then the iteration
 * throws. When it ends without throwing, the whole pack was checked: every block, index, trailer and SHA-256.
 *
 * A payload is a view of memory that its block shares; what a source hands out must not change afterwards.
 *
 * Throws PACK_TRUNCATED (cut, or not sealed), PACK_CORRUPT, PACK_VERSION_UNSUPPORTED, UNSUPPORTED_CODEC, SCHEMA_INVALID,
 * RECORD_INVALID; and what the source rejects with, as it is.
 */
export async function* readRecords(source: ByteSource): AsyncGenerator<CaptureRecord, void, undefined> {
  const scan = await PackScan.open(source);
  for (let block = await scan.next(); block !== null; block = await scan.next()) {
    const locators = locate(block.records, block.header, block.offset, scan.state.header.alignment);
    const payloads = await decodeBlock(block.bytes, block.header, locators);
    for (const [index, { captureId, capturedAtNs, scope, fields }] of block.records.entries()) {
      yield { captureId, capturedAtNs, scope, fields, payload: payloads[index] ?? new Uint8Array() };
    }
  }
  await checkTail(scan);
}

/** The tail follows from the blocks to the byte, so comparing it checks all of it. */
async function checkTail(scan: PackScan): Promise<void> {
  const offset = scan.state.size;
  const { bytes, packSize } = await scan.state.seal();
  const { size } = scan.window;
  if (size < packSize) {
    throw new PackError(
      "PACK_TRUNCATED",
      `the sealed pack has ${packSize} bytes and this one ${size}: cut, or never sealed`,
      { offset },
    );
  }
  if (size > packSize) {
    throw new PackError("PACK_CORRUPT", `${size - packSize} bytes follow after the end of the pack`, {
      offset: packSize,
    });
  }
  if (Buffer.compare(await scan.window.bytes(offset, bytes.byteLength), bytes) !== 0) {
    throw new PackError("PACK_CORRUPT", `the index or the trailer (from byte ${offset}) is not that of these blocks`, {
      offset,
    });
  }
}
