// Named faults: an answer in, the same answer sent badly out. They compose: `stallMidBody(after(200, rows(…)))`.
import { gzipSync } from "node:zlib";
import type { CutBy } from "../proxy/faults.js";
import { delivered, type Delivery, type Place, type Reply } from "./reply.js";
import type { Answer } from "./script.js";

/** The answer, changed by `change`; also when it is worked out from the request. */
export function changed(answer: Answer, change: (reply: Reply) => Reply): Answer {
  if (typeof answer !== "function") return change(answer);
  return async (request) => change(await answer(request));
}

const sent = (answer: Answer, delivery: Delivery): Answer => changed(answer, (reply) => delivered(reply, delivery));

/** Nothing is ever answered; an effect happens all the same. */
export const stallBeforeHeaders = (answer: Answer = {}): Answer => sent(answer, { delayMs: Infinity });

/** The status line and half of the headers, then nothing. */
export const stallMidHeaders = (answer: Answer = {}): Answer =>
  sent(answer, { stopAt: { place: "mid-headers", by: "stall" } });

/** The headers, then nothing. */
export const stallBeforeBody = (answer: Answer): Answer =>
  sent(answer, { stopAt: { place: "before-body", by: "stall" } });

/** Headers and `bytes` of the body (half of it unless given), then nothing. */
export const stallMidBody = (answer: Answer, bytes?: number): Answer =>
  sent(answer, { stopAt: { place: "mid-body", by: "stall", ...(bytes === undefined ? {} : { bytes }) } });

/** One byte of the body (with `headers` of the whole answer) every `everyMs`, 300 unless given: never idle. */
export const trickle = (answer: Answer, everyMs = 300, o: { readonly headers?: boolean } = {}): Answer =>
  sent(answer, { trickleMs: everyMs, trickleHeaders: o.headers ?? false });

/** The answer comes `ms` later, its effect at once. Dropped if the client leaves first. */
export const delayAnswer = (ms: number, answer: Answer): Answer => sent(answer, { delayMs: ms });

/** The server works `ms` (or until the client has left), then does it and answers, whether or not the client is there. */
export const late = (answer: Answer, workMs: number | "until-client-left" = "until-client-left"): Answer =>
  changed(answer, (reply) => ({ ...reply, workMs }));

/** The connection ends at a place of the answer. */
export const cut = (answer: Answer, place: Place, by: CutBy = "rst", bytes?: number): Answer =>
  sent(answer, { stopAt: { place, by, ...(bytes === undefined ? {} : { bytes }) } });

/** After this answer, the first byte of the next request on the connection meets a reset. */
export const resetOnReuse = (answer: Answer): Answer => sent(answer, { resetOnReuse: true });

/** After this answer, the idle connection is ended, `afterMs` later. */
export const closeIdle = (answer: Answer, afterMs = 0, by: CutBy = "fin"): Answer =>
  sent(answer, { idle: { afterMs, by } });

/** The answer is noted in the server's `effects` under this name. */
export const effect = (name: string, answer: Answer): Answer =>
  changed(answer, (reply) => ({ ...reply, effect: name }));

const encoded = (answer: Answer, encoding: string, body: (bytes: Buffer) => Buffer): Answer =>
  changed(answer, (reply) => ({
    ...reply,
    headers: { ...reply.headers, "Content-Encoding": encoding },
    body: body(Buffer.from(reply.body ?? "")),
  }));

/** Says gzip and is plain text. */
export const badGzip = (answer: Answer): Answer => encoded(answer, "gzip", (bytes) => bytes);

/** A gzip stream that ends half-way, in an answer that ends in order. */
export const cutGzip = (answer: Answer): Answer =>
  encoded(answer, "gzip", (bytes) => {
    const zipped = gzipSync(bytes);
    return zipped.subarray(0, Math.floor(zipped.length / 2));
  });

/** Good gzip under another name (`zstd` unless given). */
export const wrongEncoding = (answer: Answer, encoding = "zstd"): Answer =>
  encoded(answer, encoding, (b) => gzipSync(b));

/** The same answer so many times: for storms, `[...times(3, unavailable()), rows("1\n")]`. */
export const times = (count: number, answer: Answer): Answer[] => Array.from({ length: count }, () => answer);
