// What each fault of the conformance suite is on the wire of GCS's JSON API: another answer, another request, a page that is not the right one.
import type { FaultKind } from "@holdfast/testkit/conformance";

/** A request as it goes over the wire; the path as it is spelled there. */
export type Exchange = {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
};

/** An answer, and how its bytes end: `cut` and `stall` come after half of them. Without a content-length it comes in chunks. */
export type Answer = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly end?: "reset" | "never" | "stall" | "cut";
};
/** Gives a request to the real server. */
export type Send = (request: Exchange) => Promise<Answer>;
/** `later` keeps what a late request does for when it is let go. */
export type Strike = (send: Send, request: Exchange, later: (work: () => Promise<void>) => void) => Promise<Answer>;

/**
 * Not on this wire: a page counts nothing that it could lack (`page-skips`), and no token is how GCS says that a listing is over
 * (`token-lost`).
 */
export type Playable = Exclude<FaultKind, "page-skips" | "token-lost">;

export const reset: Answer = { status: 0, headers: {}, body: Buffer.alloc(0), end: "reset" };

export const without = (headers: Exchange["headers"], ...names: readonly string[]): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !names.includes(name)));

type Said = Readonly<Record<string, unknown>>;
const said = (body: Buffer): Said => JSON.parse(body.toString()) as Said;
const json = (status: number, value: Said): Answer => {
  const body = Buffer.from(JSON.stringify(value));
  const headers = { "content-type": "application/json; charset=UTF-8", "content-length": String(body.length) };
  return { status, headers, body };
};

function refusal(status: number, reason: string, message = "made up by a front", code = status): Answer {
  return json(status, { error: { code, message, errors: [{ message, domain: "global", reason }] } });
}

const says =
  (...refused: Parameters<typeof refusal>): Strike =>
  () =>
    Promise.resolve(refusal(...refused));

/** Does the request, and changes its answer where it is a success. */
const changing =
  (change: (answer: Answer, request: Exchange) => Partial<Answer>): Strike =>
  async (send, request) => {
    const answer = await send(request);
    return answer.status < 300 ? { ...answer, ...change(answer, request) } : answer;
  };

/** Changes what a success says of the object: its headers where it brings bytes, its JSON otherwise. */
const saying = (headers: (of: Answer["headers"]) => Answer["headers"], properties: (of: Said) => Said): Strike =>
  changing((answer) => {
    if ("x-goog-generation" in answer.headers) return { headers: headers(answer.headers) };
    return json(answer.status, properties(said(answer.body)));
  });

const dropping =
  (...names: readonly string[]) =>
  (of: Said): Said =>
    Object.fromEntries(Object.entries(of).filter(([name]) => !names.includes(name)));

/** Asks with another query. */
const querying =
  (change: (query: URLSearchParams) => void, answered: (page: Said) => Said = (page) => page): Strike =>
  async (send, request) => {
    const query = new URLSearchParams(request.query);
    change(query);
    const answer = await send({ ...request, query });
    return answer.status < 300 && answer.body.length > 0 && !query.has("alt") && request.method === "GET"
      ? json(answer.status, answered(said(answer.body)))
      : answer;
  };

/** Another page of a listing. */
const page = (change: (page: Said, token: string) => Said): Strike =>
  changing(({ status, body }, { query }) => json(status, change(said(body), query.get("pageToken") ?? "")));

const itemsOf = ({ items = [] }: Said): readonly unknown[] => items as readonly unknown[];
const foreign = { name: "zzz/foreign", size: "1", generation: "1", timeCreated: "2026-11-30T12:00:00.000Z" };

/** In front of a token of the real server: it is a new one for the client, and means the same. */
const again = "again.";
/** The token as the real server knows it. */
export const realToken = (token: string): string => token.replace(/^(?:again\.)+/, "");

const bare = (etag: string): string => etag.replaceAll('"', "");

/** The bytes of an answer, and the length that it declares of them. */
const bytes = (headers: Answer["headers"], body: Buffer): Partial<Answer> => ({
  body,
  headers: { ...headers, "content-length": String(body.length) },
});

export const strikes: { readonly [K in Playable]: Strike } = {
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
  throttled: says(503, "backendError"),
  conflict: says(409, "conflict"),
  missing: says(404, "notFound", "No such object: bucket/key"),
  precondition: says(412, "conditionNotMet"),
  forbidden: says(403, "forbidden"),
  "bad-digest": says(400, "invalid", 'Provided CRC32C "AAAAAA==" doesn\'t match calculated CRC32C "AAAAAQ==".'),
  "error-in-200": says(200, "backendError", "made up by a front", 503),
  "error-after": async (send, request) => {
    await send(request);
    return refusal(500, "backendError");
  },
  "condition-ignored": async (send, request) => {
    const query = new URLSearchParams(request.query);
    query.delete("ifGenerationMatch");
    return send({ ...request, query });
  },
  // The generation has no quotes; the other etag, which this store does not look at, has.
  "etag-unquoted": saying(
    (headers) => ({ ...headers, etag: bare(headers["etag"] ?? "") }),
    (of) => ({ ...of, etag: "bare" }),
  ),
  "etag-missing": saying((headers) => without(headers, "x-goog-generation"), dropping("generation")),
  truncated: changing(({ headers, body }) => bytes(headers, body.subarray(0, -1))),
  shifted: (send, request) => {
    const range = request.headers["range"]?.replace(/^bytes=(\d+)-(\d+)$/, (_, first: string, last: string) => {
      return `bytes=${Number(first) + 1}-${Number(last) + 1}`;
    });
    return send(range === undefined ? request : { ...request, headers: { ...request.headers, range } });
  },
  oversized: changing(({ headers, body }) => bytes(headers, Buffer.concat([body, Buffer.from("!")]))),
  "range-ignored": (send, request) => send({ ...request, headers: without(request.headers, "range") }),
  "gzip-decoded": changing(({ headers, body }) => ({
    headers: { ...without(headers, "content-length"), "x-goog-stored-content-encoding": "gzip" },
    body: Buffer.concat([Buffer.from("unpacked "), body]),
  })),
  "wrong-checksum": changing(({ headers }) => ({ headers: { ...headers, "x-goog-hash": "crc32c=AAAAAA==" } })),
  "size-missing": saying((headers) => {
    const range = headers["content-range"];
    const unsized = range === undefined ? {} : { "content-range": range.replace(/\d+$/, "*") };
    return { ...without(headers, "content-length", "x-goog-stored-content-length"), ...unsized };
  }, dropping("size")),
  "page-repeats": querying((query) => query.delete("pageToken")),
  "page-drifts": page((of) => ({ ...of, items: itemsOf(of).toReversed() })),
  "page-foreign": page((of) => ({ ...of, items: [...itemsOf(of), foreign] })),
  "page-long": querying((query) => query.set("maxResults", String(Number(query.get("maxResults") ?? 1000) + 2))),
  "page-empty": page((of, token) => ({ ...of, items: [], nextPageToken: again + token })),
  "token-refused": says(400, "invalid"),
  "token-stuck": querying(
    (query) => query.delete("pageToken"),
    (of) => ({ ...of, nextPageToken: "stuck" }),
  ),
};
