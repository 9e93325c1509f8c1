import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import { setImmediate as nextTurn } from "node:timers/promises";
import { crc32 } from "node:zlib";
import { asError, bodyPieces, bodySize, throwIfAborted, type Body } from "@holdfast/object-store";
import type { ChecksumMode } from "./options.js";
import type { Outgoing } from "./requests.js";

/** Up to here a body in memory is signed with its SHA-256, which every store checks; above, hashing would hold the loop. */
const signedBytes = 256 * 1024;

/** A body, and what proves that it arrived. */
export type Fingerprinted = {
  readonly outgoing: Outgoing;
  readonly size: number;
  /** Base64 of the big-endian CRC-32, in mode `"crc32"`. */
  readonly crc32?: string;
  /** Hex, in mode `"md5"`: what most stores answer as etag. */
  readonly md5?: string;
  /** The bytes are part of the signature, so a store that answers has checked them. */
  readonly signed: boolean;
};

/**
 * Reads a body once and computes its checksum, so that it can go in front of the bytes: behind them, as a trailer, not every store takes
 * it. What the body gives in a later reading must be the same: the store refuses it otherwise. `BODY_MISMATCH` for a body of another size.
 */
export async function fingerprint(body: Body, mode: ChecksumMode, signal: AbortSignal): Promise<Fingerprinted> {
  const signed = body instanceof Uint8Array && body.byteLength <= signedBytes;
  const payload = signed ? createHash("sha256").update(body).digest("hex") : "UNSIGNED-PAYLOAD";
  const sums = await checksums(body, mode, signal);
  const headers: Record<string, string> = { "x-amz-content-sha256": payload };
  if (sums.crc32 !== undefined) headers["x-amz-checksum-crc32"] = sums.crc32;
  if (sums.md5 !== undefined) headers["content-md5"] = Buffer.from(sums.md5, "hex").toString("base64");
  const open = signed ? () => body : (failed: (error: Error) => void) => stream(body, signal, failed);
  return { outgoing: { size: bodySize(body), headers, open }, size: bodySize(body), signed, ...sums };
}

async function checksums(
  body: Body,
  mode: ChecksumMode,
  signal: AbortSignal,
): Promise<{ crc32?: string; md5?: string }> {
  if (mode === "none") return {};
  const md5 = mode === "md5" ? createHash("md5") : null;
  let crc = 0;
  for await (const piece of bodyPieces(body, { signal })) {
    // Of an empty view some versions of Node answer 0 instead of the sum so far.
    if (md5 !== null) md5.update(piece);
    else if (piece.byteLength > 0) crc = crc32(piece, crc);
    // Bytes in memory come without a wait in between: one MiB is as long as the loop may be held.
    if (body instanceof Uint8Array && body.byteLength > signedBytes) await nextTurn();
  }
  return md5 === null ? { crc32: base64Of(crc) } : { md5: md5.digest("hex") };
}

function base64Of(crc: number): string {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(crc);
  return bytes.toString("base64");
}

/** The CRC-32 of bytes in memory as S3 writes it. */
export const crc32Of = (bytes: Uint8Array): string => base64Of(bytes.byteLength === 0 ? 0 : crc32(bytes));

/** The body from its start as a stream that tells of its failure: who pipes it into a request does not hear of it otherwise. */
function stream(body: Body, signal: AbortSignal, failed: (error: Error) => void): Readable {
  const pieces = async function* () {
    try {
      throwIfAborted(signal);
      yield* bodyPieces(body, { signal });
    } catch (error) {
      failed(asError(error));
      throw error;
    }
  };
  const readable = Readable.from(pieces(), { objectMode: false });
  readable.on("error", () => undefined); // told above
  return readable;
}
