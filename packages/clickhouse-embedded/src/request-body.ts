import type { IncomingMessage } from "node:http";
import { PassThrough } from "node:stream";
import { QueryError } from "./clickhouse-errors.js";
import { decoderFor } from "./compression.js";

/** The body of a request, decompressed, read from its start. */
export class RequestBody {
  readonly #iterator: AsyncIterator<Buffer>;
  #first: Buffer = Buffer.alloc(0);
  #ended = false;

  constructor(stream: AsyncIterable<Buffer>) {
    this.#iterator = stream[Symbol.asyncIterator]();
  }

  async #next(): Promise<Buffer | null> {
    try {
      const next = await this.#iterator.next();
      if (next.done !== true) return next.value;
      this.#ended = true;
      return null;
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code ?? "";
      if (!/^(?:Z_|ERR_BROTLI|ERR__ERROR|ERR_ZLIB)/.test(code)) throw error;
      throw QueryError.of(354, `The body cannot be decompressed by its Content-Encoding (${code}).`);
    }
  }

  /** Up to `limit` bytes from the start (a few more when a piece is larger), and whether that is all of it. */
  async head(limit: number): Promise<{ bytes: Buffer; complete: boolean }> {
    const parts = [this.#first];
    for (let size = this.#first.length; !this.#ended && size <= limit;) {
      const part = await this.#next();
      if (part === null) break;
      parts.push(part);
      size += part.length;
    }
    this.#first = Buffer.concat(parts);
    return { bytes: this.#first, complete: this.#ended };
  }

  /** Everything from `offset` within the head on. */
  async *from(offset: number): AsyncGenerator<Buffer> {
    const first = this.#first.subarray(offset);
    if (first.length > 0) yield first;
    while (!this.#ended) {
      const part = await this.#next();
      if (part !== null) yield part;
    }
  }
}

/**
 * Undoes the Content-Encoding. An encoding that this Node cannot undo is an error 48. The request itself stays open whatever becomes of the
 * decoder: who answers early lets the rest of it run to waste, so that the connection can be used again.
 */
export function requestBody(request: IncomingMessage): RequestBody {
  const encoding = (request.headers["content-encoding"] ?? "identity").toLowerCase();
  const decoder = encoding === "identity" ? new PassThrough() : decoderFor(encoding);
  if (decoder === null) {
    throw QueryError.of(48, `Content-Encoding '${encoding}' is not supported; send gzip, br, deflate or plain.`);
  }
  request.once("error", (error) => decoder.destroy(error));
  request.once("close", () => {
    if (!request.complete)
      decoder.destroy(new Error("the client closed the connection before its request was complete"));
  });
  return new RequestBody(request.pipe(decoder) as AsyncIterable<Buffer>);
}

/** A body without a byte. */
export const emptyBody = (): RequestBody => {
  const stream = new PassThrough();
  stream.end();
  return new RequestBody(stream as AsyncIterable<Buffer>);
};
