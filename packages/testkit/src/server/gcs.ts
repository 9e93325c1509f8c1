// As much of Google Cloud Storage's JSON API as its clients need: media and multipart uploads, resumable ones, downloads, metadata, lists.
import { crc32c } from "./crc32c.js";
import { page, rangeOf, store, type Objects, type StoredObject } from "./objects.js";
import type { Reply } from "./reply.js";
import type { ReceivedRequest } from "./script.js";

const json = (value: unknown, status = 200, headers: Record<string, string> = {}): Reply => ({
  status,
  headers: { "Content-Type": "application/json; charset=UTF-8", ...headers },
  body: JSON.stringify(value),
});

/** An error as GCS answers it: `gcsError(429, "rateLimitExceeded")`. */
export const gcsError = (status: number, reason: string, message = "Made up by a fault server."): Reply =>
  json({ error: { code: status, message, errors: [{ message, domain: "global", reason }] } }, status);

/** The store behind a GCS server of tests, and what answers from it. */
export interface GcsObjects {
  /** `bucket/key` → object. */
  readonly objects: Objects;
  /**
   * Uploads (`media`, `multipart`, `resumable` in one or more parts), downloads with Range, metadata, DELETE, lists, and `ifGenerationMatch`, below
   * `/storage/v1` and `/upload/storage/v1`. Every bucket exists; tokens are not looked at.
   */
  readonly answer: (request: ReceivedRequest) => Reply;
}

interface Session {
  readonly name: string;
  readonly metadata: Metadata;
  bytes: Buffer;
}

interface Metadata {
  readonly name?: string;
  readonly contentType?: string;
  readonly metadata?: Record<string, string>;
}

/** Makes an empty one: `otherwise: gcsObjects().answer`, and scripts before it for the faults. */
export function gcsObjects(): GcsObjects {
  const objects: Objects = new Map();
  const sessions = new Map<string, Session>();
  return { objects, answer: (request) => answer(objects, sessions, request) };
}

function answer(objects: Objects, sessions: Map<string, Session>, request: ReceivedRequest): Reply {
  const { method, url } = request;
  const [, upload, bucket = "", encodedKey] =
    /^(\/upload)?\/storage\/v1\/b\/([^/]+)\/o(?:\/([^/]*))?$/.exec(url.pathname) ?? [];
  if (bucket === "") return gcsError(404, "notFound");
  if (upload !== undefined) return receive(objects, sessions, bucket, request);
  if (encodedKey === undefined) return list(objects, bucket, url.searchParams);
  const name = `${bucket}/${decodeURIComponent(encodedKey)}`;
  const stored = objects.get(name);
  if (stored === undefined) return gcsError(404, "notFound", `No such object: ${name}`);
  if (!generationFits(stored, url.searchParams)) return gcsError(412, "conditionNotMet");
  if (method === "DELETE") {
    objects.delete(name);
    return { status: 204 };
  }
  return url.searchParams.get("alt") === "media"
    ? download(stored, request.headers["range"])
    : json(resource(name, stored));
}

function generationFits(stored: StoredObject | undefined, query: URLSearchParams): boolean {
  const wanted = query.get("ifGenerationMatch");
  return wanted === null || Number(wanted) === (stored?.generation ?? 0);
}

function resource(name: string, stored: StoredObject): Record<string, unknown> {
  const slash = name.indexOf("/");
  return {
    kind: "storage#object",
    bucket: name.slice(0, slash),
    name: name.slice(slash + 1),
    generation: String(stored.generation),
    metageneration: "1",
    size: String(stored.bytes.length),
    md5Hash: stored.md5.toString("base64"),
    crc32c: crc32c(stored.bytes),
    etag: `made-up-${stored.generation}`,
    contentType: stored.headers["content-type"] ?? "application/octet-stream",
    metadata: JSON.parse(stored.headers["metadata"] ?? "{}") as unknown,
    timeCreated: "2024-01-01T00:00:00.000Z",
    updated: "2024-01-01T00:00:00.000Z",
  };
}

function finish(objects: Objects, name: string, bytes: Buffer, o: Metadata, query: URLSearchParams): Reply {
  if (!generationFits(objects.get(name), query)) return gcsError(412, "conditionNotMet");
  const type = o.contentType === undefined ? {} : { "content-type": o.contentType };
  const stored = store(objects, name, bytes, { ...type, metadata: JSON.stringify(o.metadata ?? {}) });
  return json(resource(name, stored));
}

function receive(objects: Objects, sessions: Map<string, Session>, bucket: string, request: ReceivedRequest): Reply {
  const query = request.url.searchParams;
  const id = query.get("upload_id");
  if (id !== null) return proceed(objects, sessions, id, request);
  if (query.get("uploadType") === "multipart") {
    const { metadata, bytes } = parts(request);
    return finish(objects, `${bucket}/${query.get("name") ?? metadata.name ?? ""}`, bytes, metadata, query);
  }
  if (query.get("uploadType") !== "resumable") {
    const type = request.headers["content-type"];
    const metadata = type === undefined ? {} : { contentType: type };
    return finish(objects, `${bucket}/${query.get("name") ?? ""}`, request.body, metadata, query);
  }
  const said = request.body.length === 0 ? {} : (JSON.parse(request.body.toString()) as Metadata);
  const session = `session-${sessions.size + 1}`;
  sessions.set(session, {
    name: `${bucket}/${query.get("name") ?? said.name ?? ""}`,
    metadata: said,
    bytes: Buffer.alloc(0),
  });
  const here = new URL(`http://${request.headers["host"] ?? "server"}${request.target}`);
  here.searchParams.set("upload_id", session);
  return { headers: { Location: here.href, "X-GUploader-UploadID": session } };
}

/** A part of a resumable upload, or the question how far it is (`bytes *\/…`). */
function proceed(objects: Objects, sessions: Map<string, Session>, id: string, request: ReceivedRequest): Reply {
  const session = sessions.get(id);
  if (session === undefined) return gcsError(404, "notFound");
  const said = request.headers["content-range"];
  const [, from, last, total] = /^bytes (?:(\d+)-(\d+|\*)|\*)\/(\d+|\*)$/.exec(said ?? "bytes 0-*/*") ?? [];
  if (from !== undefined) session.bytes = Buffer.concat([session.bytes.subarray(0, Number(from)), request.body]);
  // Without a last byte (`bytes 0-*/*`) the end of the request is the end of the object.
  const whole = last === "*" || session.bytes.length === Number(total);
  if (whole) return finish(objects, session.name, session.bytes, session.metadata, request.url.searchParams);
  const range = session.bytes.length === 0 ? {} : { Range: `bytes=0-${session.bytes.length - 1}` };
  return { status: 308, headers: range };
}

/** The two parts of a multipart upload: what is said of the object, and its bytes. */
function parts(request: ReceivedRequest): { metadata: Metadata; bytes: Buffer } {
  const [, boundary = ""] = /boundary="?([^";]+)/.exec(request.headers["content-type"] ?? "") ?? [];
  const { body } = request;
  const content = (from: number): { begin: number; end: number } => {
    const begin = body.indexOf("\r\n\r\n", from) + 4;
    return { begin, end: body.indexOf(`\r\n--${boundary}`, begin) };
  };
  const first = content(body.indexOf(`--${boundary}`));
  const second = content(first.end + 2);
  const metadata = JSON.parse(body.subarray(first.begin, first.end).toString()) as Metadata;
  return { metadata, bytes: body.subarray(second.begin, second.end) };
}

function download(stored: StoredObject, rangeHeader: string | undefined): Reply {
  const range = rangeOf(rangeHeader, stored.bytes.length);
  if (range === undefined) return gcsError(416, "requestedRangeNotSatisfiable");
  const headers = {
    "Content-Type": stored.headers["content-type"] ?? "application/octet-stream",
    "X-Goog-Generation": String(stored.generation),
    "X-Goog-Hash": `crc32c=${crc32c(stored.bytes)},md5=${stored.md5.toString("base64")}`,
    "X-Goog-Stored-Content-Length": String(stored.bytes.length),
    "X-Goog-Stored-Content-Encoding": "identity",
  };
  if (range === null) return { headers, body: stored.bytes };
  const said = { ...headers, "Content-Range": `bytes ${range.from}-${range.to}/${stored.bytes.length}` };
  return { status: 206, headers: said, body: stored.bytes.subarray(range.from, range.to + 1) };
}

function list(objects: Objects, bucket: string, query: URLSearchParams): Reply {
  const token = query.get("pageToken");
  const after = token === null ? "" : Buffer.from(token, "base64url").toString();
  const most = Math.min(1000, Number(query.get("maxResults") ?? 1000));
  const { keys, next } = page(objects, { bucket, prefix: query.get("prefix") ?? "", after, most });
  const items = keys.flatMap((key) => {
    const stored = objects.get(`${bucket}/${key}`);
    return stored === undefined ? [] : [resource(`${bucket}/${key}`, stored)];
  });
  const more = next === undefined ? {} : { nextPageToken: Buffer.from(next).toString("base64url") };
  return json({ kind: "storage#objects", items, ...more });
}
