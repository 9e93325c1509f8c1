import type { IncomingMessage } from "node:http";
import type { Duplex, Readable } from "node:stream";
import { PassThrough, pipeline } from "node:stream";
import * as zlib from "node:zlib";
import { QueryError } from "./clickhouse-errors.js";

/** The body of a request, decompressed, read from its start. */
export class RequestBody {
  readonly #iterator: AsyncIterator<Buffer>;
  #first: Buffer[] = [];
  #ended = false;

  constructor(stream: Readable) {
    this.#iterator = (stream as AsyncIterable<Buffer>)[Symbol.asyncIterator]();
  }

  /** Up to `limit` bytes from the start (a few more when a piece is larger), and whether that is all of it. */
  async head(limit: number): Promise<{ bytes: Buffer; complete: boolean }> {
    let size = this.#first.reduce((n, b) => n + b.length, 0);
    while (!this.#ended && size <= limit) {
      const next = await this.#iterator.next();
      if (next.done === true) this.#ended = true;
      else {
        this.#first.push(next.value);
        size += next.value.length;
      }
    }
    const bytes = Buffer.concat(this.#first);
    this.#first = [bytes];
    return { bytes, complete: this.#ended };
  }

  /** Everything from `offset` within the head on. */
  async *from(offset: number): AsyncGenerator<Buffer> {
    const first = Buffer.concat(this.#first).subarray(offset);
    if (first.length > 0) yield first;
    while (!this.#ended) {
      const next = await this.#iterator.next();
      if (next.done === true) this.#ended = true;
      else yield next.value;
    }
  }
}

/** Undoes the Content-Encoding. An encoding that this Node cannot undo is an error 48. */
export function requestBody(request: IncomingMessage): RequestBody {
  const encoding = (request.headers["content-encoding"] ?? "identity").toLowerCase();
  const decoder = decoderFor(encoding);
  if (decoder === null) {
    throw QueryError.of(48, `Content-Encoding '${encoding}' is not supported; send gzip, br, deflate or plain.`);
  }
  // Errors reach the reader through the iteration; the callback only keeps them from being thrown a second time.
  return new RequestBody(pipeline(request, decoder, () => undefined));
}

function decoderFor(encoding: string): Duplex | null {
  switch (encoding) {
    case "identity":
      return new PassThrough();
    case "gzip":
    case "x-gzip":
      return zlib.createGunzip();
    case "deflate":
      return zlib.createInflate();
    case "br":
      return zlib.createBrotliDecompress();
    default:
      return null;
  }
}
