import { crcOn } from "./crc.js";
import { bufferOver } from "./byte-cursor.js";
import { PackError, shown } from "./errors.js";
import { limits } from "./limits.js";
import { uuidText, writeUuid } from "./uuid.js";

/** The file version that this package writes, and the only one that it reads. */
export const packVersion = 0;

/** Bytes of the pack header, of a block header and of the trailer. */
export const frameBytes = 64;

/** Bytes of the index before its copy of the pack header. */
export const indexHeadBytes = 16;

const magics = { pack: "HFPK", block: "HFBK", index: "HFIX", trailer: "HFTR" } as const;

/** What the first 64 bytes of a pack say. */
export interface PackHeader {
  /** File version. */
  readonly version: number;
  readonly packId: string;
  readonly writerId: string;
  readonly sequence: bigint;
  /** See {@link schemaIdOf}. */
  readonly schemaId: string;
  /** Blocks, and uncompressed payloads, begin at multiples of this many bytes of the object. */
  readonly alignment: number;
  /** Wall clock, ms since 1970, before which the pack is not to be deleted; null when nothing is asked for. */
  readonly retainUntilMs: number | null;
  /** Reserved; 0. Bit 0 will say that payloads are encrypted. */
  readonly flags: number;
}

/** The smallest multiple of `alignment` (a power of two) that is not below `offset`. */
export function alignUp(offset: number, alignment: number): number {
  return Math.ceil(offset / alignment) * alignment;
}

/** Whether `bytes` begin with the magic of a part. */
export function hasMagic(bytes: Uint8Array, part: keyof typeof magics): boolean {
  return bytes.byteLength >= 4 && bufferOver(bytes).toString("latin1", 0, 4) === magics[part];
}

/** Writes the magic and the version. */
export function writeMagic(into: Buffer, part: keyof typeof magics): void {
  into.write(magics[part], 0, 4, "latin1");
  if (part !== "block") into.writeUInt16LE(packVersion, 4);
}

/** Puts the CRC-32 of the 60 bytes before it into the last four bytes of a 64-byte frame. */
export function closeFrame(frame: Buffer): void {
  frame.writeUInt32LE(crcOn(frame.subarray(0, frameBytes - 4)), frameBytes - 4);
}

/** Whether the CRC of a 64-byte frame is right. */
export function frameIsWhole(frame: Buffer): boolean {
  return frame.readUInt32LE(frameBytes - 4) === crcOn(frame.subarray(0, frameBytes - 4));
}

/** Magic and version stay where they are in every future version, so that this can always be told. */
export function checkVersion(frame: Buffer, offset: number): void {
  const version = frame.readUInt16LE(4);
  if (version === packVersion) return;
  throw new PackError(
    "PACK_VERSION_UNSUPPORTED",
    `the pack has file version ${version} and this package reads version ${packVersion}: use a release that reads ${version}`,
    { offset },
  );
}

/** The 64 bytes that open a pack. */
export function encodeHeader(header: PackHeader): Buffer {
  const frame = Buffer.alloc(frameBytes);
  writeMagic(frame, "pack");
  frame.writeUInt8(header.flags, 6);
  frame.writeUInt8(Math.log2(header.alignment), 7);
  writeUuid(header.packId, frame, 8);
  writeUuid(header.writerId, frame, 24);
  frame.writeBigUInt64LE(header.sequence, 40);
  frame.writeUIntLE(header.retainUntilMs ?? 0, 48, 6);
  frame.write(header.schemaId, 54, 6, "hex");
  closeFrame(frame);
  return frame;
}

/**
 * Reads the first 64 bytes of a pack; more may be given. `at` is where they lie in the pack (for messages).
 *
 * Throws PACK_TRUNCATED for fewer bytes, PACK_CORRUPT for something that is not a pack or fails its checksum, and
 * PACK_VERSION_UNSUPPORTED for another file version or a flag that this package does not know.
 */
export function readPackHeader(bytes: Uint8Array, at = 0): PackHeader {
  if (bytes.byteLength < frameBytes) {
    throw new PackError("PACK_TRUNCATED", `a pack begins with ${frameBytes} bytes; given ${bytes.byteLength}`, {
      offset: at,
    });
  }
  const frame = bufferOver(bytes).subarray(0, frameBytes);
  const corrupt = (what: string): PackError => new PackError("PACK_CORRUPT", what, { offset: at });
  if (!hasMagic(frame, "pack")) throw corrupt(`not a pack: it begins with ${frame.toString("hex", 0, 4)}`);
  checkVersion(frame, at);
  if (!frameIsWhole(frame)) throw corrupt("the pack header fails its checksum");
  const flags = frame.readUInt8(6);
  if (flags !== 0) {
    throw new PackError(
      "PACK_VERSION_UNSUPPORTED",
      `the pack (file version ${packVersion}) has flags 0x${flags.toString(16)} that file version ${packVersion} of this package does not know`,
      { offset: at },
    );
  }
  const alignmentLog2 = frame.readUInt8(7);
  const sequence = frame.readBigUInt64LE(40);
  if (2 ** alignmentLog2 > limits.alignment) throw corrupt(`alignment 2^${alignmentLog2} is over ${limits.alignment}`);
  if (sequence >= limits.sequence) throw corrupt(`sequence ${shown(sequence)} has more than 16 digits`);
  const retainUntilMs = frame.readUIntLE(48, 6);
  return {
    version: packVersion,
    packId: uuidText(frame, 8),
    writerId: uuidText(frame, 24),
    sequence,
    schemaId: frame.toString("hex", 54, 60),
    alignment: 2 ** alignmentLog2,
    retainUntilMs: retainUntilMs === 0 ? null : retainUntilMs,
    flags,
  };
}

/** What the last 64 bytes of a pack say. */
export interface Trailer {
  readonly indexOffset: number;
  readonly indexBytes: number;
  readonly recordCount: number;
  readonly indexCrc32: number;
  /** Of everything before the trailer, in hex. */
  readonly bodySha256: string;
}

/** The 64 bytes that close a pack. */
export function encodeTrailer(trailer: Trailer): Buffer {
  const frame = Buffer.alloc(frameBytes);
  writeMagic(frame, "trailer");
  frame.writeBigUInt64LE(BigInt(trailer.indexOffset), 8);
  frame.writeUInt32LE(trailer.indexBytes, 16);
  frame.writeUInt32LE(trailer.recordCount, 20);
  frame.writeUInt32LE(trailer.indexCrc32, 24);
  frame.write(trailer.bodySha256, 28, 32, "hex");
  closeFrame(frame);
  return frame;
}

/** Reads a trailer that ends at `packSize`, and checks that its index range ends where it begins. */
export function readTrailer(bytes: Uint8Array, packSize: number): Trailer {
  const at = packSize - frameBytes;
  const frame = bufferOver(bytes);
  const corrupt = (what: string): PackError => new PackError("PACK_CORRUPT", what, { offset: at });
  if (!hasMagic(frame, "trailer")) {
    throw new PackError("PACK_TRUNCATED", "the pack does not end in a trailer: it was cut, or never sealed", {
      offset: at,
    });
  }
  checkVersion(frame, at);
  if (!frameIsWhole(frame)) throw corrupt("the trailer fails its checksum");
  const indexOffset = frame.readBigUInt64LE(8);
  const indexBytes = frame.readUInt32LE(16);
  if (indexOffset < BigInt(frameBytes) || indexOffset + BigInt(indexBytes) !== BigInt(at)) {
    throw corrupt(`the index (${indexBytes} bytes at ${indexOffset.toString()}) does not end at the trailer (${at})`);
  }
  if (indexBytes > limits.indexBytes)
    throw corrupt(`the index has ${indexBytes} bytes and may have ${limits.indexBytes}`);
  return {
    indexOffset: Number(indexOffset),
    indexBytes,
    recordCount: frame.readUInt32LE(20),
    indexCrc32: frame.readUInt32LE(24),
    bodySha256: frame.toString("hex", 28, 60),
  };
}
