// Answers as a ClickHouse server gives them.
import type { Delivery, Reply } from "./reply.js";

/** 200 with these bytes as the result; empty for a statement without one. */
export const rows = (text: string | Uint8Array = "", headers: Readonly<Record<string, string>> = {}): Reply => ({
  headers: { "Content-Type": "application/x-ndjson; charset=UTF-8", ...headers },
  body: text,
});

/** 503 without a server code; with seconds, `Retry-After` says them. */
export const unavailable = (retryAfterSeconds?: number): Reply => ({
  status: 503,
  headers: retryAfterSeconds === undefined ? {} : { "Retry-After": String(retryAfterSeconds) },
  body: "Service Unavailable\n",
});

/** An exception of a server: its number and its name. */
export interface ServerException {
  readonly code: number;
  readonly name: string;
  readonly text?: string;
}

/** As the server writes it. */
export const exceptionText = ({ code, name, text = "made up by a fault server." }: ServerException): string =>
  `Code: ${code}. DB::Exception: ${text} (${name}) (version 26.7.2.1)\n`;

const inHeader = (e: ServerException): Record<string, string> => ({ "X-ClickHouse-Exception-Code": String(e.code) });

/** An error as answered before anything was sent: status 500 unless given, the code in a header. */
export const exception = (e: ServerException, status = 500): Reply => ({
  status,
  headers: inHeader(e),
  body: exceptionText(e),
});

/** A time limit ran out in the server: 159 with status 408, as newer servers say it. */
export const timeLimit159 = (): Reply =>
  exception({ code: 159, name: "TIMEOUT_EXCEEDED", text: "Timeout exceeded: elapsed 300.1 ms, maximum: 300 ms." }, 408);

/** Waiting for a lock ran out in the server. */
export const timeLimit473 = (): Reply => exception({ code: 473, name: "DEADLOCK_AVOIDED" });

/** Quorum was not reached in time: the insert is there or not. */
export const timeLimit319 = (): Reply => exception({ code: 319, name: "UNKNOWN_STATUS_OF_INSERT" });

/** The ways in which an exception comes inside a 200. */
export type ExceptionShape = "text-after-rows" | "json-row" | "tagged-block" | "no-rows-then-text" | "in-headers";

/** The shapes of `exceptionIn200`. */
export const exceptionShapes: readonly ExceptionShape[] = [
  "text-after-rows",
  "json-row",
  "tagged-block",
  "no-rows-then-text",
  "in-headers",
];

const tag = "PU1FNUFH98aghoth";

/**
 * 200, then an exception. `text-after-rows`, `no-rows-then-text`: its text, in order ended. `json-row`: a last row
 * `{"exception":…}`. `tagged-block`: between tags announced by `X-ClickHouse-Exception-Tag`, and no last chunk (25.11 and later).
 * `in-headers`: `X-ClickHouse-Exception-Code` in the headers of the 200, the text as body.
 */
export function exceptionIn200(shape: ExceptionShape, e: ServerException, rowsBefore = '{"a":"1"}\n'): Reply {
  const text = exceptionText(e);
  switch (shape) {
    case "text-after-rows":
      return { ...rows(`${rowsBefore}${text}`), framing: "chunked" };
    case "json-row":
      return { ...rows(`${rowsBefore}${JSON.stringify({ exception: text.trimEnd() })}\n`), framing: "chunked" };
    case "tagged-block": {
      const block = `\r\n__exception__\r\n${tag}\r\n${text}${text.length} ${tag}\r\n__exception__\r\n`;
      const headers = { "X-ClickHouse-Exception-Tag": tag };
      return { ...rows(rowsBefore + block, headers), framing: "chunked-without-end", delivery: endsBy("fin") };
    }
    case "no-rows-then-text":
      return { ...rows(text), framing: "chunked" };
    case "in-headers":
      return rows(text, inHeader(e));
  }
}

const endsBy = (by: "fin" | "rst"): Delivery => ({ stopAt: { place: "end", by } });

/** Whole rows, and the connection is reset without the last chunk: cut at the border of a row, or wherever the text ends. */
export const rowsCut = (text: string, by: "fin" | "rst" = "rst"): Reply => ({
  ...rows(text),
  framing: "chunked-without-end",
  delivery: endsBy(by),
});

/** Rows without length or chunks, ended by the end of the connection: a cut in them cannot be seen. */
export const rowsUnframed = (text: string): Reply => ({ ...rows(text), framing: "close" });
