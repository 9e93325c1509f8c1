import type { CutBy } from "../proxy/faults.js";

/** Where in an answer something happens. */
export type Place = "before-headers" | "mid-headers" | "before-body" | "mid-body" | "end";

/**
 * How an answer is sent. Times are ms. `stopAt` ends it at a place: `stall` sends nothing more and keeps the connection open,
 * `fin` and `rst` end the connection. `mid-headers` is after the status line and half a header; `mid-body` after `bytes` of
 * the body (half of it unless given); `end` after the last byte.
 */
export interface Delivery {
  /** Before the first byte. `Infinity`: never; nothing is sent. */
  readonly delayMs?: number;
  readonly stopAt?: { readonly place: Place; readonly by: "stall" | CutBy; readonly bytes?: number };
  /** One byte of the body after another, with so many ms between. The headers come at once. */
  readonly trickleMs?: number;
  /** The same for the whole answer, headers too. */
  readonly trickleHeaders?: boolean;
  /** After the answer, the idle connection is ended so many ms later. */
  readonly idle?: { readonly afterMs: number; readonly by: CutBy };
  /** The first byte of the next request on this connection is answered with a reset. */
  readonly resetOnReuse?: boolean;
}

/** How the end of the body is told: by its length, chunked, chunked without the last chunk, or by the end of the connection. */
export type Framing = "length" | "chunked" | "chunked-without-end" | "close";

/** An answer as data: it can be written to JSON (a string as body) and sent to a server in another process. */
export interface Reply {
  /** 200 unless given. */
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
  /** `length` unless given. */
  readonly framing?: Framing;
  /**
   * How long the server works before it does anything, the client being there or not: ms, or until the client has left. Then
   * comes the effect, then the answer, which a client that has left does not get.
   */
  readonly workMs?: number | "until-client-left";
  /** A name under which the server notes, in `effects`, that it did what was asked: at the moment it begins to answer. */
  readonly effect?: string;
  readonly delivery?: Delivery;
}

/** The same answer, sent in another way. What was said before stays where it is not said anew. */
export const delivered = (reply: Reply, delivery: Delivery): Reply => ({
  ...reply,
  delivery: { ...reply.delivery, ...delivery },
});

const reasons: Readonly<Record<number, string>> = {
  200: "OK",
  204: "No Content",
  206: "Partial Content",
  404: "Not Found",
  408: "Request Timeout",
  412: "Precondition Failed",
  500: "Internal Server Error",
  503: "Service Unavailable",
};

/** An answer in bytes. */
export interface Rendered {
  readonly head: Buffer;
  readonly body: Buffer;
  /** The connection ends with the body. */
  readonly closes: boolean;
}

/** @internal */
export function render(reply: Reply, method: string): Rendered {
  const { status = 200, headers = {}, framing = "length" } = reply;
  const body = typeof reply.body === "string" ? Buffer.from(reply.body) : Buffer.from(reply.body ?? []);
  const bare = status === 204 || status === 304;
  const named = new Set(Object.keys(headers).map((name) => name.toLowerCase()));
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  const chunked = framing === "chunked" || framing === "chunked-without-end";
  if (chunked) lines.push("Transfer-Encoding: chunked");
  else if (framing === "close") lines.push("Connection: close");
  else if (!bare && !named.has("content-length")) lines.push(`Content-Length: ${body.length}`);
  const head = Buffer.from(
    `HTTP/1.1 ${status} ${reasons[status] ?? "Answer"}\r\n${lines.join("\r\n")}\r\n\r\n`,
    "latin1",
  );
  const sent = method === "HEAD" || bare ? Buffer.alloc(0) : chunked ? chunks(body, framing === "chunked") : body;
  return { head, body: sent, closes: framing === "close" };
}

function chunks(body: Buffer, withEnd: boolean): Buffer {
  const one = body.length === 0 ? [] : [Buffer.from(`${body.length.toString(16)}\r\n`), body, Buffer.from("\r\n")];
  return Buffer.concat(withEnd ? [...one, Buffer.from("0\r\n\r\n")] : one);
}
