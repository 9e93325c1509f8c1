import type { ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { QueryError } from "./clickhouse-errors.js";
import { encoderFor, type Encoder } from "./compression.js";
import type { Result, Stats } from "./execution.js";
import { exceptionBlock, setResultHeaders } from "./response.js";

/** Results up to this size are whole before the headers go out, so that their errors have a status. */
const holdBytesMin = 65_536;

export type SendOptions = {
  readonly response: ServerResponse;
  readonly acceptEncoding: string;
  readonly compress: boolean;
  readonly waitEnd: boolean;
  readonly holdBytes: number;
  readonly timezone: string;
  readonly exceptionTag: string;
  /** Only the headers are wanted. */
  readonly head: boolean;
};

/**
 * Sends one result in two steps. `take` reads it, while slot and session are held; `finish` ends the response once they are free: a caller
 * who has seen the end of an answer may use session, slot and query id again at once.
 *
 * held     → take is over, all of the result is here; finish sends headers and body, or the caller answers with an error instead
 * sending  → take began to send, since the result is large; finish sends the end, with the error if there was one
 */
export class ResultSender {
  readonly #o: SendOptions;
  #held: { readonly format: string; readonly chunks: readonly Buffer[]; readonly stats: Stats | null } | null = null;
  #sending: Promise<void> | null = null;
  #end: (error: QueryError | null) => void = () => undefined;

  constructor(o: SendOptions) {
    this.#o = o;
  }

  /** Whether the headers are gone, so that an error can only be told by `finish`. */
  get started(): boolean {
    return this.#sending !== null;
  }

  /** Returns what the engine did, or null when nobody wants the rest. Throws the result's error, and when the client leaves. */
  async take(result: Result): Promise<Stats | null> {
    const chunks = result.chunks[Symbol.asyncIterator]();
    const held: Buffer[] = [];
    let size = 0;
    while (this.#o.waitEnd || size < Math.max(holdBytesMin, this.#o.holdBytes)) {
      const next = await chunks.next();
      if (next.done === true) {
        // The engine is done: its verdict decides about the headers.
        const stats = await result.done;
        this.#held = { format: result.format, chunks: held, stats };
        return stats;
      }
      held.push(next.value);
      size += next.value.length;
    }
    if (this.#o.head) {
      this.#held = { format: result.format, chunks: [], stats: null };
      return null;
    }
    const ended = new Promise<QueryError | null>((resolve) => (this.#end = resolve));
    let consumed = (): void => undefined;
    const allRead = new Promise<void>((resolve) => (consumed = resolve));
    const body = bodyOf(held, chunks, consumed, ended, this.#o.exceptionTag);
    const encoder = this.#headers(result.format, null, true);
    this.#sending = this.#send(body, encoder);
    await Promise.race([allRead, this.#sending]);
    return result.done;
  }

  /** Ends the response; `error` is told in it when its headers are gone already. Rejects when the client has left. */
  async finish(error: QueryError | null): Promise<void> {
    this.#end(error);
    if (this.#sending !== null) return this.#sending;
    if (this.#held === null) return;
    const { format, chunks, stats } = this.#held;
    const size = chunks.reduce((n, chunk) => n + chunk.length, 0);
    const encoder = this.#headers(format, stats, size > 0);
    if (encoder === null || this.#o.head) {
      if (!this.#o.head) this.#o.response.setHeader("Content-Length", String(size));
      this.#o.response.end(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks));
      return;
    }
    await this.#send(chunks, encoder);
  }

  #headers(format: string, stats: Stats | null, hasBody: boolean): Encoder | null {
    const { response, compress, acceptEncoding, timezone, exceptionTag } = this.#o;
    const encoder = compress && hasBody ? encoderFor(acceptEncoding) : null;
    setResultHeaders(response, { format, stats, timezone, exceptionTag, encoding: encoder?.name ?? null });
    return encoder;
  }

  async #send(body: AsyncIterable<Buffer> | Iterable<Buffer>, encoder: Encoder | null): Promise<void> {
    const source = Readable.from(body, { objectMode: false });
    await (encoder === null ? pipeline(source, this.#o.response) : pipeline(source, encoder.stream, this.#o.response));
  }
}

async function* bodyOf(
  held: readonly Buffer[],
  rest: AsyncIterator<Buffer>,
  consumed: () => void,
  ended: Promise<QueryError | null>,
  tag: string,
): AsyncGenerator<Buffer> {
  yield* held;
  for (let next = await rest.next(); next.done !== true; next = await rest.next()) yield next.value;
  consumed();
  const error = await ended;
  if (error !== null) yield exceptionBlock(tag, error);
}
