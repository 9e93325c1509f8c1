import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import { setImmediate as nextTurn } from "node:timers/promises";
import { crc32 } from "node:zlib";
import {
  asError,
  bodyPieces,
  bodySize,
  ObjectStoreError,
  onAbort,
  throwIfAborted,
  type Body,
} from "@holdfast/object-store";
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
  await eachPiece(body, signal, async (piece) => {
    // Of an empty view some versions of Node answer 0 instead of the sum so far.
    if (md5 !== null) md5.update(piece);
    else if (piece.byteLength > 0) crc = crc32(piece, crc);
    // Bytes in memory come without a wait in between: one MiB is as long as the loop may be held.
    if (body instanceof Uint8Array && body.byteLength > signedBytes) await nextTurn();
  });
  return md5 === null ? { crc32: base64Of(crc) } : { md5: md5.digest("hex") };
}

function base64Of(crc: number): string {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(crc);
  return bytes.toString("base64");
}

/** The CRC-32 of bytes in memory as S3 writes it. */
export const crc32Of = (bytes: Uint8Array): string => base64Of(bytes.byteLength === 0 ? 0 : crc32(bytes));

type Streamed = Exclude<Body, Uint8Array>;

/** Gives each piece to `use`, from the start of the body; `BODY_MISMATCH` as {@link bodyPieces} has it. Ends the source with the signal. */
async function eachPiece(body: Body, signal: AbortSignal, use: (piece: Uint8Array) => Promise<void>): Promise<void> {
  if (body instanceof Uint8Array) {
    for await (const piece of bodyPieces(body, { signal })) await use(piece);
    return;
  }
  const pieces = opened(body);
  // One listener for the whole reading: one for each piece costs more than the checksum.
  const forget = onAbort(signal, () => void pieces.close());
  try {
    for (;;) {
      const piece = await pieces.next();
      throwIfAborted(signal);
      if (piece === null) return;
      await use(piece);
    }
  } catch (error) {
    throwIfAborted(signal);
    throw error;
  } finally {
    forget();
    void pieces.close();
  }
}

/** A body's pieces, counted: neither more nor fewer bytes than it declared come out of here before it fails. */
function opened(body: Streamed): { next(): Promise<Uint8Array | null>; close(): Promise<void> } {
  const { size } = body;
  const items = body.open()[Symbol.asyncIterator]();
  let seen = 0;
  let over = false;
  const mismatch = (given: string) => {
    const advice = "the source changed while it was read, or its size is wrong";
    return new ObjectStoreError("BODY_MISMATCH", `a body declared ${size} bytes and gave ${given}; ${advice}`);
  };
  return {
    async next() {
      const item = await items.next();
      if (item.done === true) {
        over = true;
        if (seen !== size) throw mismatch(String(seen));
        return null;
      }
      seen += item.value.byteLength;
      if (seen > size) throw mismatch(`at least ${seen}`);
      return item.value;
    },
    async close() {
      if (over) return;
      over = true;
      // It is left because of another error or for good; how its closing fails changes nothing for anybody.
      await items.return?.().catch(() => undefined);
    },
  };
}

/** The body from its start as a stream that tells of its failure: who pipes it into a request does not hear of it otherwise. */
function stream(body: Body, signal: AbortSignal, failed: (error: Error) => void): Readable {
  const pieces = body instanceof Uint8Array ? inMemory(body, signal) : opened(body);
  const readable = new Readable({
    highWaterMark: 1 << 20,
    read() {
      pieces.next().then(
        (piece) => {
          if (piece?.byteLength === 0) this._read(0);
          else this.push(piece);
        },
        (error: unknown) => {
          failed(asError(error));
          this.destroy(asError(error));
        },
      );
    },
    destroy(error, done) {
      void pieces.close();
      done(error);
    },
  });
  readable.on("error", () => undefined); // told above
  return readable;
}

function inMemory(bytes: Uint8Array, signal: AbortSignal): ReturnType<typeof opened> {
  const items = bodyPieces(bytes, { signal });
  return {
    async next() {
      const item = await items.next();
      return item.done === true ? null : item.value;
    },
    close: () => Promise.resolve(),
  };
}
