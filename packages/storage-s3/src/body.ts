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

/** A body as each attempt sends it. */
export type Outgoing = {
  readonly size: number;
  /** Replaces what the SDK would send of checksums. */
  readonly headers: Readonly<Record<string, string>>;
  /** Anew for each attempt; a failure of the source is told to `failed`, since the SDK does not listen for it. */
  open(failed: (error: Error) => void): BodyStream | Uint8Array;
};

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
  const open = signed ? () => body : (failed: (error: Error) => void) => new BodyStream(body, signal, failed);
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

/**
 * The body from its start as a stream. Who pipes it into a request does not hear of its failure, so `failed` is told; and does not end the request
 * when it is destroyed, so {@link BodyStream.leave} does. The last piece is held back until the source has ended: a server may
 * answer as soon as it has all bytes, and the request must be at its end by then, or its socket is never free again.
 */
export class BodyStream extends Readable {
  readonly #pieces: ReturnType<typeof opened>;
  readonly #failed: (error: Error) => void;
  #left: number;
  #given = false;
  #target: NodeJS.WritableStream | undefined;

  constructor(body: Body, signal: AbortSignal, failed: (error: Error) => void) {
    super({ highWaterMark: 1 << 20 });
    this.#pieces = body instanceof Uint8Array ? inMemory(body, signal) : opened(body);
    this.#failed = failed;
    this.#left = bodySize(body);
    this.on("error", () => undefined); // told to `failed`
  }

  override pipe<T extends NodeJS.WritableStream>(target: T, o?: { end?: boolean }): T {
    this.#target = target;
    return super.pipe(target, o);
  }

  override _read(): void {
    this.#give().catch((error: unknown) => {
      this.#failed(asError(error));
      this.destroy(asError(error));
    });
  }

  async #give(): Promise<void> {
    for (;;) {
      const piece = await this.#pieces.next();
      if (piece === null) {
        this.#end();
        return;
      }
      this.#left -= piece.byteLength;
      // Fails when there is more than was declared.
      if (this.#left === 0) while ((await this.#pieces.next()) !== null);
      if (piece.byteLength > 0) this.push(piece);
      if (this.#left === 0) this.#end();
      if (this.#left === 0 || piece.byteLength > 0) return;
    }
  }

  #end(): void {
    this.#given = true;
    this.push(null);
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    void this.#pieces.close();
    done(error);
  }

  /** The request has been answered with a failure: what has not been sent of it never will be, and its connection goes with it. */
  leave(): void {
    if (this.#given) return;
    this.destroy();
    if (this.#target !== undefined && "destroy" in this.#target)
      (this.#target as NodeJS.WritableStream & { destroy(): void }).destroy();
  }
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
