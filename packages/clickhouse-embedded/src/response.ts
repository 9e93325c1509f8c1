import type { ServerResponse } from "node:http";
import { httpStatus, type QueryError } from "./clickhouse-errors.js";
import type { Stats } from "./execution.js";
import { contentType } from "./formats.js";

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

/**
 * How an error in the middle of a result is told: the tag of the headers, the text, its length in bytes. One chunk, so that readers find it
 * whole.
 */
export function exceptionBlock(tag: string, error: QueryError): Buffer {
  const text = `${error.text}\n`;
  const size = Buffer.byteLength(text);
  return Buffer.from(`\r\n__exception__\r\n${tag}\r\n${text}${size} ${tag}\r\n__exception__\r\n`);
}

/** The headers of a result. `stats` are null while it is still running: then the summary says zero, as ClickHouse's does. */
export function setResultHeaders(
  response: ServerResponse,
  o: {
    readonly format: string;
    readonly stats: Stats | null;
    readonly timezone: string;
    readonly exceptionTag: string;
    readonly encoding: string | null;
  },
): void {
  response.setHeader("Content-Type", contentType(o.format));
  response.setHeader("X-ClickHouse-Format", o.format);
  response.setHeader("X-ClickHouse-Timezone", o.timezone);
  response.setHeader("X-ClickHouse-Exception-Tag", o.exceptionTag);
  response.setHeader("X-ClickHouse-Summary", summary(o.stats));
  if (o.encoding !== null) response.setHeader("Content-Encoding", o.encoding);
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
