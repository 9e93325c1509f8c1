import type { ServerResponse } from "node:http";
import { Readable, type Duplex } from "node:stream";
import { pipeline } from "node:stream/promises";
import * as zlib from "node:zlib";
import { fromEngine, httpStatus, type QueryError } from "./clickhouse-errors.js";
import { contentType } from "./formats.js";
import type { Result, Stats } from "./execution.js";

/** Results up to this size are whole before the headers go out, so that their errors have a status. */
const holdBytesMin = 65_536;

export type Delivery = {
  readonly response: ServerResponse;
  readonly acceptEncoding: string;
  readonly compress: boolean;
  readonly waitEnd: boolean;
  readonly holdBytes: number;
  readonly timezone: string;
  readonly exceptionTag: string;
  readonly head: boolean;
};

/**
 * Sends a result. The first part is held back, so that an error before or in it is an error status and not a broken 200. Returns what
 * the engine did, or null when nobody wanted the rest. Throws the error also when the client has been told.
 */
export async function sendResult(result: Result, d: Delivery): Promise<Stats | null> {
  const chunks = result.chunks[Symbol.asyncIterator]();
  const held: Buffer[] = [];
  let size = 0;
  let ended = false;
  while (d.waitEnd || size < Math.max(holdBytesMin, d.holdBytes)) {
    const next = await chunks.next();
    if (next.done === true) {
      ended = true;
      break;
    }
    held.push(next.value);
    size += next.value.length;
  }
  // Once the chunks have ended the engine is done: its verdict decides about the headers.
  const stats = ended ? await result.done : null;
  const encoder = size === 0 ? null : encoderFor(d);
  setHeaders(result.format, stats, d, encoder?.name ?? null, ended && encoder === null ? size : null);
  if (d.head) {
    d.response.end();
    return stats;
  }
  const body = Readable.from(bodyOf(held, ended ? null : { chunks, result, tag: d.exceptionTag }), {
    objectMode: false,
  });
  await (encoder === null ? pipeline(body, d.response) : pipeline(body, encoder.stream, d.response));
  return result.done;
}

type Rest = { readonly chunks: AsyncIterator<Buffer>; readonly result: Result; readonly tag: string };

async function* bodyOf(held: readonly Buffer[], rest: Rest | null): AsyncGenerator<Buffer> {
  yield* held;
  if (rest === null) return;
  for (;;) {
    const next = await rest.chunks.next();
    if (next.done === true) break;
    yield next.value;
  }
  try {
    await rest.result.done;
  } catch (error) {
    yield exceptionBlock(rest.tag, fromEngine(error));
  }
}

/** How an error in the middle of a result is told: the tag of the headers, the text, its length in bytes. One chunk, so that it is found whole. */
export function exceptionBlock(tag: string, error: QueryError): Buffer {
  const text = `${error.text}\n`;
  const size = String(Buffer.byteLength(text));
  return Buffer.from(`\r\n__exception__\r\n${tag}\r\n${text}${size} ${tag}\r\n__exception__\r\n`);
}

/** Answers with an error: its status, its code in a header, its text. */
export function sendError(response: ServerResponse, error: QueryError): void {
  const text = `${error.text}\n`;
  response.statusCode = httpStatus(error.clickhouseCode);
  response.setHeader("X-ClickHouse-Exception-Code", String(error.clickhouseCode));
  response.setHeader("Content-Type", "text/plain; charset=UTF-8");
  response.setHeader("Content-Length", String(Buffer.byteLength(text)));
  if (error.clickhouseCode === 516) response.setHeader("WWW-Authenticate", 'Basic realm="ClickHouse server HTTP API"');
  response.end(text);
}

function setHeaders(
  format: string,
  stats: Stats | null,
  d: Delivery,
  encoding: string | null,
  length: number | null,
): void {
  const r = d.response;
  r.setHeader("Content-Type", contentType(format));
  r.setHeader("X-ClickHouse-Format", format);
  r.setHeader("X-ClickHouse-Timezone", d.timezone);
  r.setHeader("X-ClickHouse-Exception-Tag", d.exceptionTag);
  r.setHeader("X-ClickHouse-Summary", summary(stats));
  if (encoding !== null) r.setHeader("Content-Encoding", encoding);
  if (length !== null) r.setHeader("Content-Length", String(length));
}

const summary = (s: Stats | null): string =>
  JSON.stringify({
    read_rows: String(s?.readRows ?? 0),
    read_bytes: String(s?.readBytes ?? 0),
    written_rows: String(s?.writtenRows ?? 0),
    written_bytes: String(s?.writtenBytes ?? 0),
    total_rows_to_read: "0",
    result_rows: String(s?.writtenRows ?? 0),
    result_bytes: String(s?.writtenBytes ?? 0),
    elapsed_ns: String(Math.round((s?.elapsedSeconds ?? 0) * 1e9)),
  });

function encoderFor(d: Delivery): { name: string; stream: Duplex } | null {
  if (!d.compress) return null;
  const accepted = d.acceptEncoding.split(",").map((part) => part.split(";")[0]?.trim().toLowerCase());
  if (accepted.includes("gzip")) return { name: "gzip", stream: zlib.createGzip({ level: 3 }) };
  if (accepted.includes("br")) {
    return { name: "br", stream: zlib.createBrotliCompress({ params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 3 } }) };
  }
  if (accepted.includes("deflate")) return { name: "deflate", stream: zlib.createDeflate({ level: 3 }) };
  return null;
}
