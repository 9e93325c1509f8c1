// What each fault of the conformance suite is on S3's wire: another answer, another request, a page of XML that is not the right one.
import { crc32 } from "node:zlib";
import type { FaultKind } from "@holdfast/testkit/conformance";
import { spelled, type Exchange } from "./resign.js";

/** An answer, and how its bytes end: `short` closes the connection behind them, `cut` and `stall` come after half of them. */
export type Answer = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly end?: "reset" | "never" | "stall" | "cut" | "short";
};
/** Gives a request to the real server. */
export type Send = (request: Exchange) => Promise<Answer>;
/** `later` keeps what a late request does for when it is let go. */
type Strike = (send: Send, request: Exchange, later: (work: () => Promise<void>) => void) => Promise<Answer>;

const nothing = Buffer.alloc(0);
const reset: Answer = { status: 0, headers: {}, body: nothing, end: "reset" };

export const without = (headers: Exchange["headers"], ...names: readonly string[]): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !names.includes(name)));

function refusal(status: number, code: string): Answer {
  const body = Buffer.from(
    `<?xml version="1.0" encoding="UTF-8"?><Error><Code>${code}</Code><RequestId>front</RequestId></Error>`,
  );
  return { status, headers: { "content-type": "application/xml", "content-length": String(body.length) }, body };
}

const says =
  (status: number, code: string): Strike =>
  () =>
    Promise.resolve(refusal(status, code));

/** Does the request, and changes its answer where it is a success. */
const changing =
  (change: (answer: Answer, request: Exchange) => Partial<Answer>): Strike =>
  async (send, request) => {
    const answer = await send(request);
    return answer.status < 300 ? { ...answer, ...change(answer, request) } : answer;
  };

const asking =
  (change: (request: Exchange) => Partial<Exchange>): Strike =>
  (send, request) =>
    send({ ...request, ...change(request) });

/** Asks with another query. */
const querying =
  (change: (query: URLSearchParams) => void, answered: (xml: string) => string = (xml) => xml): Strike =>
  (send, request, later) => {
    const query = new URLSearchParams(request.query);
    change(query);
    const answering = changing(({ body }) => ({ body: Buffer.from(answered(body.toString())) }));
    return answering(send, { ...request, query: spelled(query) }, later);
  };

const page = (change: (xml: string, token: string) => string): Strike =>
  changing(({ body }, { query }) => {
    const token = new URLSearchParams(query).get("continuation-token") ?? "";
    return { body: Buffer.from(change(body.toString(), token)) };
  });

/** A page with an element of this text, without it for `null`. */
function withElement(xml: string, name: string, text: string | null): string {
  const rest = xml.replace(new RegExp(`<${name}>[^<]*</${name}>|<${name}/>`), "");
  return text === null ? rest : rest.replace("</ListBucketResult>", `<${name}>${text}</${name}></ListBucketResult>`);
}

/** A page with other entries. */
function withEntries(xml: string, change: (entries: readonly string[]) => readonly string[]): string {
  const entry = /<Contents>.*?<\/Contents>/gs;
  const entries = change(xml.match(entry) ?? []).join("");
  return xml.replace(entry, "").replace("</ListBucketResult>", `${entries}</ListBucketResult>`);
}

const counting = (xml: string): string => withElement(xml, "KeyCount", String((xml.match(/<Contents>/g) ?? []).length));

const foreign =
  "<Contents><Key>zzz/foreign</Key><LastModified>2026-11-30T12:00:00.000Z</LastModified><ETag>&quot;f&quot;</ETag><Size>1</Size></Contents>";

/** In front of a token of the real server: it is a new one for the client, and means the same. */
const again = "again.";
/** The token as the real server knows it. */
export const realToken = (token: string): string => token.replace(/^(?:again\.)+/, "");

const bareEtags = (answer: Answer): Partial<Answer> => {
  const { etag } = answer.headers;
  if (etag !== undefined) return { headers: { ...answer.headers, etag: etag.replaceAll('"', "") } };
  const xml = answer.body.toString();
  const bare = xml.replace(
    /<ETag>(.*?)<\/ETag>/g,
    (_, text: string) => `<ETag>${text.replace(/&quot;|"/g, "")}</ETag>`,
  );
  return { body: Buffer.from(bare) };
};

export const strikes: { readonly [K in FaultKind]: Strike } = {
  "request-lost": () => Promise.resolve(reset),
  "answer-lost": async (send, request) => ({ ...(await send(request)), ...reset }),
  late: (send, request, later) => {
    later(async () => {
      await send(request);
    });
    return Promise.resolve(reset);
  },
  stalled: async (send, request) => ({ ...(await send(request)), end: "never" }),
  "body-stalled": changing(() => ({ end: "stall" })),
  "body-cut": changing(() => ({ end: "cut" })),
  throttled: says(503, "SlowDown"),
  conflict: says(409, "ConditionalRequestConflict"),
  missing: says(404, "NoSuchKey"),
  precondition: says(412, "PreconditionFailed"),
  forbidden: says(403, "AccessDenied"),
  "bad-digest": says(400, "BadDigest"),
  "error-in-200": says(200, "InternalError"),
  "error-after": async (send, request) => {
    await send(request);
    return refusal(500, "InternalError");
  },
  "condition-ignored": asking(({ headers }) => ({ headers: without(headers, "if-match", "if-none-match") })),
  "etag-unquoted": changing(bareEtags),
  "etag-missing": changing(({ headers }) => ({ headers: without(headers, "etag") })),
  // Declared whole: S3 tells a whole object's size nowhere but in content-length.
  truncated: changing(({ body }) => ({ body: body.subarray(0, -1), end: "short" })),
  shifted: asking(({ headers }) => {
    const range = headers["range"]?.replace(/^bytes=(\d+)-(\d+)$/, (_, first: string, last: string) => {
      return `bytes=${Number(first) + 1}-${Number(last) + 1}`;
    });
    return range === undefined ? {} : { headers: { ...headers, range } };
  }),
  // One more than the range is declared; behind a whole object, whose size nothing else tells, it comes undeclared.
  oversized: changing(({ status, headers, body }) => ({
    body: Buffer.concat([body, Buffer.from("!")]),
    headers: status === 206 ? { ...headers, "content-length": String(body.length + 1) } : headers,
    end: "short",
  })),
  "range-ignored": asking(({ headers }) => ({ headers: without(headers, "range") })),
  "gzip-decoded": changing(({ headers, body }) => ({
    headers: { ...headers, "content-encoding": "gzip" },
    body: Buffer.concat([Buffer.from("unpacked "), body]),
    end: "short",
  })),
  // Ceph 16 keeps no CRC-32: a wrong one is then the only one.
  "wrong-checksum": changing(({ headers, body }) => {
    const sum = Buffer.alloc(4);
    sum.writeUInt32BE((crc32(body) ^ 1) >>> 0);
    return { headers: { ...headers, "x-amz-checksum-crc32": sum.toString("base64") } };
  }),
  "size-missing": changing(({ headers }) => {
    const range = headers["content-range"];
    const unsized = range === undefined ? {} : { "content-range": range.replace(/\d+$/, "*") };
    return { headers: { ...without(headers, "content-length"), ...unsized } };
  }),
  "page-repeats": querying((query) => query.delete("continuation-token")),
  "page-drifts": page((xml) => withEntries(xml, (entries) => entries.toReversed())),
  "page-skips": page((xml) => withEntries(xml, (entries) => entries.slice(1))),
  "page-foreign": page((xml) => counting(withEntries(xml, (entries) => [...entries, foreign]))),
  "page-long": querying((query) => query.set("max-keys", String(Number(query.get("max-keys") ?? 1000) + 2))),
  "page-empty": page((xml, token) => {
    const empty = withElement(counting(withEntries(xml, () => [])), "IsTruncated", "true");
    return withElement(empty, "NextContinuationToken", again + token);
  }),
  "token-lost": page((xml) => withElement(xml, "NextContinuationToken", null)),
  "token-refused": says(400, "InvalidArgument"),
  "token-stuck": querying(
    (query) => query.delete("continuation-token"),
    (xml) => withElement(withElement(xml, "IsTruncated", "true"), "NextContinuationToken", "stuck"),
  ),
};
