import { blockLength, encodeBlockHeader, payloadStart, placePayloads, type BlockHeader, type Codec } from "./block.js";
import { crcOn, crcWith } from "./crc.js";
import type { Draft } from "./drafts.js";
import { frameBytes } from "./layout.js";
import { crcOf, inSlices } from "./slices.js";
import { compress } from "./zlib-work.js";

/** A block that its pack has not taken yet. */
export interface EncodedBlock {
  readonly bytes: Buffer;
  readonly header: BlockHeader;
  readonly captureIds: readonly string[];
}

/** Where a block goes, and how its payloads are to be stored. */
export interface BlockPlace {
  readonly number: number;
  readonly packId: string;
  readonly alignment: number;
  readonly codec: Codec;
}

/** Bytes and their CRC. */
interface Part {
  readonly bytes: Uint8Array;
  readonly crc: number;
}

/** The bytes of a record block. With gzip it is stored as with none if it would not be smaller. */
export async function encodeRecordBlock(draft: Draft, place: BlockPlace): Promise<EncodedBlock> {
  const payloads = draft.records.map((record) => record.payload);
  const payloadBytes = payloads.reduce((sum, payload) => sum + payload.byteLength, 0);
  if (place.codec === "gzip" && payloadBytes > 0) {
    const [first = new Uint8Array()] = payloads;
    const bytes = await compress(payloads.length === 1 ? first : Buffer.concat(payloads));
    if (bytes.length < payloadBytes) return assemble(draft, place, payloadBytes, [{ bytes, crc: await crcOf(bytes) }]);
  }
  const parts = payloads.map((bytes, index) => ({ bytes, crc: draft.crcs[index] ?? 0 }));
  return assemble(draft, { ...place, codec: "none" }, payloadBytes, parts);
}

async function assemble(
  draft: Draft,
  { number, packId, alignment, codec }: BlockPlace,
  payloadBytes: number,
  parts: readonly Part[],
): Promise<EncodedBlock> {
  const lengthsOfParts = parts.map((part) => part.bytes.byteLength);
  const placed = placePayloads(lengthsOfParts, codec, alignment);
  const lengths = { codec, metadataBytes: draft.metadata.length, storedBytes: placed.bytes };
  const start = payloadStart(lengths, alignment);
  const block = Buffer.allocUnsafeSlow(blockLength(lengths, alignment));
  block.set(draft.metadata, frameBytes);
  let end = frameBytes + draft.metadata.length;
  let bodyCrc32 = crcOn(draft.metadata);
  const padTo = (at: number): void => {
    block.fill(0, end, at);
    bodyCrc32 = crcOn(block.subarray(end, at), bodyCrc32);
    end = at;
  };
  for (const [index, { bytes, crc }] of parts.entries()) {
    padTo(start + (placed.offsets[index] ?? 0));
    bodyCrc32 = crcWith(bodyCrc32, bytes, crc);
    await inSlices(bytes, (slice) => {
      block.set(slice, end);
      end += slice.byteLength;
    });
  }
  padTo(block.length);
  const captureIds = draft.records.map((record) => record.captureId);
  const header: BlockHeader = {
    ...lengths,
    ...{ number, packId, kind: "records", recordCount: captureIds.length },
    ...{ payloadBytes, blockBytes: block.length, bodyCrc32 },
  };
  encodeBlockHeader(header, block);
  return { bytes: block, header, captureIds };
}
