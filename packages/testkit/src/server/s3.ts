// As much of S3's protocol as its clients need to put, get, head, list and delete. Path style: /bucket/key.
import { page, rangeOf, store, type Objects, type StoredObject } from "./objects.js";
import type { Reply } from "./reply.js";
import type { ReceivedRequest } from "./script.js";

const escaped = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");

const xml = (status: number, body: string): Reply => ({
  status,
  headers: { "Content-Type": "application/xml", "x-amz-request-id": "MADEUP" },
  body: `<?xml version="1.0" encoding="UTF-8"?>\n${body}`,
});

/** An error as S3 answers it, `SlowDown` with 503 for one. */
export const s3Error = (code: string, status: number, message = "Made up by a fault server."): Reply =>
  xml(status, `<Error><Code>${code}</Code><Message>${escaped(message)}</Message><RequestId>MADEUP</RequestId></Error>`);

/** The store behind an S3 server of tests, and what answers from it. */
export interface S3Objects {
  /** `bucket/key` → object. */
  readonly objects: Objects;
  /**
   * PUT (with `If-None-Match: *` and `If-Match`; `aws-chunked` bodies are taken apart), GET (with Range), HEAD, DELETE, and LIST version 2 in path
   * style. Every bucket exists. Signatures and checksums are not looked at; multipart uploads are answered 501.
   */
  readonly answer: (request: ReceivedRequest) => Reply;
}

/** Makes an empty one: `otherwise: s3Objects().answer`, and scripts before it for the faults. */
export function s3Objects(): S3Objects {
  const objects: Objects = new Map();
  return { objects, answer: (request) => answer(objects, request) };
}

function answer(objects: Objects, request: ReceivedRequest): Reply {
  const [bucket = "", ...rest] = request.url.pathname.slice(1).split("/");
  const key = decodeURIComponent(rest.join("/"));
  const name = `${bucket}/${key}`;
  const query = request.url.searchParams;
  if (query.has("uploads") || query.has("uploadId")) return s3Error("NotImplemented", 501);
  if (key === "") return request.method === "GET" ? list(objects, bucket, query) : { status: 200 };
  const stored = objects.get(name);
  switch (request.method) {
    case "PUT":
      return put(objects, name, request);
    case "GET":
      return stored === undefined ? s3Error("NoSuchKey", 404) : get(stored, request.headers["range"]);
    case "HEAD":
      return stored === undefined ? { status: 404 } : get(stored, undefined);
    case "DELETE":
      objects.delete(name);
      return { status: 204 };
    default:
      return s3Error("MethodNotAllowed", 405);
  }
}

const etag = (stored: StoredObject): string => `"${stored.md5.toString("hex")}"`;

function put(objects: Objects, name: string, request: ReceivedRequest): Reply {
  const { headers } = request;
  const there = objects.get(name);
  const mustMatch = headers["if-match"];
  if (headers["if-none-match"] === "*" && there !== undefined) return s3Error("PreconditionFailed", 412);
  if (mustMatch !== undefined && (there === undefined || etag(there) !== mustMatch)) {
    return there === undefined ? s3Error("NoSuchKey", 404) : s3Error("PreconditionFailed", 412);
  }
  const chunked = (headers["content-encoding"] ?? "").includes("aws-chunked");
  const kept = Object.entries(headers).filter(([field]) => field.startsWith("x-amz-meta-") || field === "content-type");
  const stored = store(objects, name, chunked ? unchunked(request.body) : request.body, Object.fromEntries(kept));
  return { headers: { ETag: etag(stored) } };
}

/** `size in hex;signature CRLF data CRLF …`, then `0` and trailers. */
function unchunked(body: Buffer): Buffer {
  const parts: Buffer[] = [];
  let at = 0;
  for (;;) {
    const lineEnd = body.indexOf("\r\n", at);
    const size = lineEnd < 0 ? 0 : Number.parseInt(body.subarray(at, lineEnd).toString("latin1"), 16);
    if (!(size > 0)) return Buffer.concat(parts);
    parts.push(body.subarray(lineEnd + 2, lineEnd + 2 + size));
    at = lineEnd + 2 + size + 2;
  }
}

function get(stored: StoredObject, rangeHeader: string | undefined): Reply {
  const size = stored.bytes.length;
  const range = rangeOf(rangeHeader, size);
  if (range === undefined) return s3Error("InvalidRange", 416);
  const headers = {
    ...stored.headers,
    ETag: etag(stored),
    "Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT",
    "Accept-Ranges": "bytes",
  };
  if (range === null) return { headers, body: stored.bytes };
  const { from, to } = range;
  const said = { ...headers, "Content-Range": `bytes ${from}-${to}/${size}` };
  return { status: 206, headers: said, body: stored.bytes.subarray(from, to + 1) };
}

function list(objects: Objects, bucket: string, query: URLSearchParams): Reply {
  const prefix = query.get("prefix") ?? "";
  const most = Math.min(1000, Number(query.get("max-keys") ?? 1000));
  const token = query.get("continuation-token");
  const after = token === null ? (query.get("start-after") ?? "") : Buffer.from(token, "base64url").toString();
  const { keys, next } = page(objects, { bucket, prefix, after, most });
  const inUrl = query.get("encoding-type") === "url";
  const shown = (key: string): string => (inUrl ? encodeURIComponent(key).replaceAll("%2F", "/") : escaped(key));
  const contents = keys.map((key) => {
    const stored = objects.get(`${bucket}/${key}`);
    if (stored === undefined) return "";
    const facts = `<Size>${stored.bytes.length}</Size><ETag>${escaped(etag(stored))}</ETag>`;
    return `<Contents><Key>${shown(key)}</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified>${facts}</Contents>`;
  });
  const more = next === undefined ? "" : Buffer.from(next).toString("base64url");
  return xml(
    200,
    `<ListBucketResult><Name>${escaped(bucket)}</Name><Prefix>${shown(prefix)}</Prefix><KeyCount>${keys.length}</KeyCount>` +
      `<MaxKeys>${most}</MaxKeys>${inUrl ? "<EncodingType>url</EncodingType>" : ""}<IsTruncated>${next !== undefined}</IsTruncated>` +
      `${more === "" ? "" : `<NextContinuationToken>${more}</NextContinuationToken>`}${contents.join("")}</ListBucketResult>`,
  );
}
