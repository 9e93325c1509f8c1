import { Readable } from "node:stream";
import { setImmediate as nextTurn } from "node:timers/promises";
import { asError, bodyPieces, bodySize, onAbort, type Body } from "@holdfast/object-store";
import { base64Of, crc32c } from "./crc32c.js";

/**
 * The CRC-32C of a body, from one reading of it, so that it can be sent before the bytes: the server then refuses what differs in a later
 * reading. `BODY_MISMATCH` for a body of another size.
 */
export async function checksumOf(body: Body, signal: AbortSignal): Promise<string> {
  let crc = 0;
  for await (const piece of bodyPieces(body, { signal })) {
    crc = crc32c(piece, crc);
    // Bytes in memory come without a wait in between: one MiB is as long as the event loop may be held.
    if (body instanceof Uint8Array && body.byteLength > 1 << 20) await nextTurn();
  }
  return base64Of(crc);
}

/** A body on its way: a stream from its start, what became of its source, and how to end it. */
export type OpenedBody = {
  readonly stream: Readable;
  readonly failed: () => Error | undefined;
  readonly close: () => void;
};

/**
 * Opens a body as a stream. The last piece is held back until the source has ended: a source that has more or fewer bytes than declared
 * fails before a server could have had all of them.
 */
export function openBody(body: Body, signal: AbortSignal): OpenedBody {
  // The source ends with the call and with this attempt, also while it does not answer.
  const end = new AbortController();
  const forget = onAbort(signal, () => end.abort(signal.reason));
  let failure: Error | undefined;
  const stream = Readable.from(heldBack(body, end.signal), { objectMode: false, highWaterMark: 1 << 20 });
  stream.on("error", (error) => {
    if (!end.signal.aborted) failure ??= asError(error);
  });
  return {
    stream,
    failed: () => failure,
    close: () => {
      forget();
      end.abort();
      stream.destroy();
    },
  };
}

async function* heldBack(body: Body, signal: AbortSignal): AsyncGenerator<Uint8Array, void, undefined> {
  let held: Uint8Array | undefined;
  for await (const piece of bodyPieces(body, { signal })) {
    if (piece.byteLength === 0) continue;
    if (held !== undefined) yield held;
    held = piece;
  }
  if (held !== undefined) yield held;
}

/** Reads any part of a body, best from its start on: what was read before is only there again after another opening. */
export class BodyReader {
  readonly #body: Body;
  readonly #end = new AbortController();
  readonly #forget: () => void;
  #pieces: AsyncGenerator<Uint8Array, void, undefined>;
  /** The part that was given last, and where it begins. */
  #part: Buffer = Buffer.alloc(0);
  #partAt = 0;
  /** What has come of the body behind that part. */
  #rest: Uint8Array = new Uint8Array(0);

  constructor(body: Body, signal: AbortSignal) {
    this.#body = body;
    this.#forget = onAbort(signal, () => this.#end.abort(signal.reason));
    this.#pieces = bodyPieces(body, { signal: this.#end.signal });
  }

  /** `length` bytes from `offset`, all of them inside the body. `BODY_MISMATCH` when the body has another size than declared. */
  async part(offset: number, length: number): Promise<Buffer> {
    if (offset < this.#partAt) await this.#openAgain();
    const part = Buffer.allocUnsafe(length);
    let filled = this.#part.subarray(offset - this.#partAt).copy(part);
    let skip = Math.max(0, offset - this.#partAt - this.#part.byteLength);
    while (filled < length) {
      const piece = this.#rest.byteLength > 0 ? this.#rest : await this.#next();
      const from = Math.min(skip, piece.byteLength);
      skip -= from;
      const taken = piece.subarray(from, from + length - filled);
      part.set(taken, filled);
      filled += taken.byteLength;
      this.#rest = piece.subarray(from + taken.byteLength);
    }
    [this.#part, this.#partAt] = [part, offset];
    // Fails when there is more than was declared: before the last bytes are sent.
    if (offset + length === bodySize(this.#body)) while ((await this.#pieces.next()).done !== true);
    return part;
  }

  close(): void {
    this.#forget();
    this.#end.abort();
    void this.#pieces.return().catch(() => undefined);
  }

  async #next(): Promise<Uint8Array> {
    const next = await this.#pieces.next();
    // A body that ends early has failed by now.
    if (next.done === true) throw new Error("unreachable: a body that ends early fails");
    return next.value;
  }

  async #openAgain(): Promise<void> {
    await this.#pieces.return();
    this.#pieces = bodyPieces(this.#body, { signal: this.#end.signal });
    this.#part = Buffer.alloc(0);
    this.#partAt = 0;
    this.#rest = new Uint8Array(0);
  }
}
