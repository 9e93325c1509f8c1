import { bufferOver } from "./byte-cursor.js";
import { PackError } from "./errors.js";
import { alignUp, closeFrame, frameBytes, frameIsWhole, hasMagic, writeMagic } from "./layout.js";
import { limits } from "./limits.js";
import { uuidText, writeUuid } from "./uuid.js";

/** How the payloads of a block are stored. */
export type Codec = "none" | "gzip";

/** The codecs that a file can name; not all of them can be read here. */
const codecNames = ["none", "gzip", "zstd"] as const;
type StoredCodec = (typeof codecNames)[number];

/** Block 0 carries the schema, all others carry records. */
export type BlockKind = "schema" | "records";

/** What the 64 bytes before a block's metadata say. */
export interface BlockHeader {
  /** Counts from 0. */
  readonly number: number;
  readonly packId: string;
  readonly kind: BlockKind;
  readonly codec: StoredCodec;
  readonly recordCount: number;
  readonly metadataBytes: number;
  /** Bytes of the payload section as stored; with codec none it includes the padding between payloads. */
  readonly storedBytes: number;
  /** The payloads' own bytes together. */
  readonly payloadBytes: number;
  /** The whole block: header, metadata, payload section and padding. */
  readonly blockBytes: number;
  /** CRC-32 of everything after the header. */
  readonly bodyCrc32: number;
}

/** Where the payload section begins, in bytes from the start of the block. */
export function payloadStart(header: Pick<BlockHeader, "codec" | "metadataBytes">, alignment: number): number {
  const end = frameBytes + header.metadataBytes;
  return header.codec === "none" ? alignUp(end, alignment) : end;
}

/** The length of a block that has these parts. */
export function blockLength(
  header: Pick<BlockHeader, "codec" | "metadataBytes" | "storedBytes">,
  alignment: number,
): number {
  return alignUp(payloadStart(header, alignment) + header.storedBytes, alignment);
}

/**
 * Where each payload lies in the decoded payload section, and how long the section is. Codec none keeps every payload
 * aligned, so that it can be fetched and used as it lies; a compressed section has them end to end.
 */
export function placePayloads(
  lengths: readonly number[],
  codec: StoredCodec,
  alignment: number,
): { offsets: number[]; bytes: number } {
  let bytes = 0;
  const offsets = lengths.map((length) => {
    const offset = codec === "none" ? alignUp(bytes, alignment) : bytes;
    bytes = offset + length;
    return offset;
  });
  return { offsets, bytes };
}

/** The 64 bytes of a block header. */
export function encodeBlockHeader(header: BlockHeader, into: Buffer): void {
  const frame = into.subarray(0, frameBytes).fill(0);
  writeMagic(frame, "block");
  frame.writeUInt32LE(header.number, 4);
  writeUuid(header.packId, frame, 8);
  frame.writeUInt8(header.kind === "schema" ? 0 : 1, 24);
  frame.writeUInt8(codecNames.indexOf(header.codec), 25);
  frame.writeUInt32LE(header.recordCount, 28);
  frame.writeUInt32LE(header.metadataBytes, 32);
  frame.writeUInt32LE(header.storedBytes, 36);
  frame.writeUInt32LE(header.payloadBytes, 40);
  frame.writeUInt32LE(header.blockBytes, 44);
  frame.writeUInt32LE(header.bodyCrc32, 48);
  closeFrame(frame);
}

/** What a block must be to follow on what came before it. */
export interface Expected {
  readonly packId: string;
  readonly number: number;
  readonly alignment: number;
  /** Where it lies in the pack. */
  readonly offset: number;
}

/**
 * Reads the header of the block that {@link Expected} describes: afterwards its lengths agree with each other and with
 * the limits, though not yet with the source. Throws PACK_CORRUPT, or UNSUPPORTED_CODEC for a codec that file version 0
 * does not name.
 */
export function readBlockHeader(bytes: Uint8Array, expected: Expected): BlockHeader {
  const header = parseBlockHeader(bytes, expected.offset);
  const { number, packId, kind } = header;
  if (number !== expected.number)
    throw corrupt(expected.offset, `it is block ${number}, where ${expected.number} stands`);
  if (packId !== expected.packId)
    throw corrupt(expected.offset, `it belongs to pack ${packId}, not to ${expected.packId}`);
  if ((kind === "schema") !== (number === 0)) throw corrupt(expected.offset, `a ${kind} block does not stand here`);
  const length = blockLength(header, expected.alignment);
  if (header.blockBytes !== length) throw corrupt(expected.offset, `its length is ${header.blockBytes}, not ${length}`);
  return header;
}

/** {@link readBlockHeader} for who has the block alone: what it follows on and its padding are not checked. */
export function parseBlockHeader(bytes: Uint8Array, offset: number): BlockHeader {
  const frame = bufferOver(bytes).subarray(0, frameBytes);
  if (frame.length < frameBytes) throw corrupt(offset, `${frame.length} bytes are no block`);
  if (!hasMagic(frame, "block")) throw corrupt(offset, `no block begins here (${frame.toString("hex", 0, 4)})`);
  if (!frameIsWhole(frame)) throw corrupt(offset, "its header fails its checksum");
  const [number, kind, codecNumber] = [frame.readUInt32LE(4), frame.readUInt8(24), frame.readUInt8(25)];
  const codec = codecNames[codecNumber];
  if (codec === undefined) {
    throw new PackError(
      "UNSUPPORTED_CODEC",
      `block ${number} has codec number ${codecNumber}; known are ${codecNames.join(", ")}`,
      { offset },
    );
  }
  if (kind > 1) throw corrupt(offset, `kind ${kind} is unknown`);
  const header: BlockHeader = {
    number,
    packId: uuidText(frame, 8),
    kind: kind === 0 ? "schema" : "records",
    codec,
    recordCount: frame.readUInt32LE(28),
    metadataBytes: frame.readUInt32LE(32),
    storedBytes: frame.readUInt32LE(36),
    payloadBytes: frame.readUInt32LE(40),
    blockBytes: frame.readUInt32LE(44),
    bodyCrc32: frame.readUInt32LE(48),
  };
  const problem = lengthProblem(header);
  if (problem !== null) throw corrupt(offset, problem);
  return header;
}

function corrupt(offset: number, what: string): PackError {
  return new PackError("PACK_CORRUPT", `block at byte ${offset}: ${what}`, { offset });
}

function lengthProblem(header: BlockHeader): string | null {
  const { recordCount, metadataBytes, storedBytes, payloadBytes, blockBytes, codec } = header;
  const padding = blockBytes - frameBytes - metadataBytes - storedBytes;
  if (padding < 0 || padding >= 2 * limits.alignment) return `its length ${blockBytes} does not fit its parts`;
  if (metadataBytes > limits.metadataBytes)
    return `${metadataBytes} bytes of metadata are over ${limits.metadataBytes}`;
  if (header.kind === "schema") {
    return recordCount === 0 && storedBytes === 0 && payloadBytes === 0 ? null : "a schema block has no records";
  }
  if (recordCount < 1 || recordCount > limits.blockRecords) return `it cannot hold ${recordCount} records`;
  const most = recordCount === 1 ? limits.payloadBytes : limits.blockBytes - metadataBytes;
  if (payloadBytes > most)
    return `${payloadBytes} bytes of payloads are over the ${most} that ${recordCount} records may have`;
  const mostStored =
    codec === "none" ? payloadBytes + recordCount * (limits.alignment - 1) : compressedBound(payloadBytes);
  if (storedBytes > mostStored) return `${storedBytes} stored bytes are too many for ${payloadBytes} bytes of payloads`;
  return null;
}

/** More than any compressor makes of `bytes`. */
function compressedBound(bytes: number): number {
  return bytes + Math.ceil(bytes / 256) + 1024;
}

/** The codec, when this package can decode it. Throws UNSUPPORTED_CODEC. */
export function readableCodec(codec: string): Codec {
  if (codec === "none" || codec === "gzip") return codec;
  throw new PackError(
    "UNSUPPORTED_CODEC",
    codec === "zstd"
      ? "codec zstd needs node:zlib of Node.js 22.15 or later (here runs " +
          `${process.version}) and a release of this package that uses it; this one reads none and gzip`
      : `codec ${codec} is unknown; this package reads none and gzip`,
  );
}
