// As much of Google Cloud Storage's JSON API as its clients and storage-gcs need, in memory.
import { refusedBy } from "./gcs-conditions.js";
import { download } from "./gcs-download.js";
import { select } from "./gcs-fields.js";
import { list } from "./gcs-list.js";
import { resource, update } from "./gcs-object.js";
import { gcsError, json, textError } from "./gcs-reply.js";
import { Sessions, type GcsSession, type KeptBytes } from "./gcs-session.js";
import { describedBy, uploadAtOnce } from "./gcs-upload.js";
import type { Objects } from "./objects.js";
import type { Reply } from "./reply.js";
import type { ReceivedRequest } from "./script.js";

/** Options of {@link gcsObjects}. */
export interface GcsObjectsOptions {
  /** The buckets that exist; any other is a 404. Default: every bucket exists. */
  readonly buckets?: readonly string[];
  /** How many bytes a resumable upload keeps of a request that brought `newBytes`. Default: all of them. */
  readonly keptBytes?: KeptBytes;
  /** Chunks of a resumable upload that are no multiple of this are refused, but for the last. The service's is 262144; default: 1, any size. */
  readonly chunkMultiple?: number;
}

/** The store behind a GCS server of tests, and what answers from it. */
export interface GcsObjects {
  /** `bucket/key` → object. */
  readonly objects: Objects;
  /** Answers below `/storage/v1`, `/upload/storage/v1` and `/download/storage/v1`; see {@link gcsObjects}. */
  readonly answer: (request: ReceivedRequest) => Reply;
  /** Every resumable upload that was begun, in that order, as it stands now. */
  sessions(): readonly GcsSession[];
  /** Ends every open resumable upload as its week passing does; requests to it are answered with `status`, 410 unless given. */
  expireSessions(status?: 404 | 410): void;
}

const everything: KeptBytes = (_session, newBytes) => newBytes;

/**
 * A Google Cloud Storage in memory: `otherwise: gcsObjects().answer`, and scripts before it for the faults (429 and 503 with Retry-After, stalls, cuts).
 *
 * It serves media, multipart and resumable uploads (308 with the bytes kept, status queries, chunks that are sent again, DELETE answered 499, expiry),
 * downloads with ranges and decompressive transcoding, metadata (GET and PATCH), DELETE, lists in pages, generations and metagenerations, the four
 * preconditions on them, partial responses (`fields`), `kmsKeyName`, `storageClass` and `userProject` (kept, not checked), and checksums: one that came
 * with an upload and is wrong is refused with 400. Tokens are not looked at. Anything else is answered 501.
 *
 * It was written from the public reference of the JSON API, its guides to resumable uploads, preconditions and transcoding, and public bug reports, and has
 * never been compared with the real service. Where the reference is silent it is a guess: the texts of errors and whether they are JSON; that preconditions are
 * looked at when a resumable upload begins, and before checksums; the 503 for a chunk that begins behind the bytes kept; what a session answers after it
 * was deleted or completed; that all bytes of a request are kept (the service keeps multiples of 256 KiB of one that breaks).
 */
export function gcsObjects(o: GcsObjectsOptions = {}): GcsObjects {
  const objects: Objects = new Map();
  const { keptBytes = everything, chunkMultiple = 1 } = o;
  const sessions = new Sessions(objects, { keptBytes, chunkMultiple });
  const known = (bucket: string): boolean => o.buckets?.includes(bucket) ?? true;
  return {
    objects,
    answer: (request) => answer({ objects, sessions, known }, request),
    sessions: () => sessions.list(),
    expireSessions: (status = 410) => sessions.expire(status),
  };
}

interface State {
  readonly objects: Objects;
  readonly sessions: Sessions;
  readonly known: (bucket: string) => boolean;
}

const path = /^(\/upload|\/download)?\/storage\/v1\/b\/([^/]+)(\/o(?:\/([^/]*))?)?$/;

function answer(state: State, request: ReceivedRequest): Reply {
  const { method, url } = request;
  const [, way, bucket, inside, encodedKey] = path.exec(url.pathname) ?? [];
  if (bucket === undefined) return gcsError(501, "notImplemented", `The fake does not serve ${url.pathname}`);
  if (!state.known(bucket)) return gcsError(404, "notFound", "The specified bucket does not exist.");
  if (way === "/upload") return receive(state, bucket, request);
  if (inside === undefined) return json({ kind: "storage#bucket", id: bucket, name: bucket, location: "MADE-UP" });
  if (encodedKey === undefined) {
    return method === "GET" ? list(state.objects, bucket, url.searchParams) : gcsError(501, "notImplemented");
  }
  const key = decoded(encodedKey);
  if (key === null) return gcsError(400, "invalid", "The name of the object is no UTF-8.");
  return ofObject(state.objects, `${bucket}/${key}`, way === "/download", request);
}

function receive({ objects, sessions }: State, bucket: string, request: ReceivedRequest): Reply {
  const query = request.url.searchParams;
  const id = query.get("upload_id");
  if (id !== null) return sessions.proceed(id, request);
  return query.get("uploadType") === "resumable"
    ? sessions.start(bucket, request)
    : uploadAtOnce(objects, bucket, request);
}

function ofObject(objects: Objects, name: string, downloads: boolean, request: ReceivedRequest): Reply {
  const { method, url } = request;
  const query = url.searchParams;
  const read = method === "GET" || method === "HEAD";
  const media = downloads || query.get("alt") === "media";
  const stored = objects.get(name);
  const generation = query.get("generation");
  if (stored === undefined || (generation !== null && generation !== String(stored.generation))) {
    const text = `No such object: ${name}`;
    return media ? textError(404, text) : gcsError(404, "notFound", text);
  }
  const refused = refusedBy(query, stored, read);
  if (refused !== null) return refused;
  if (method === "DELETE") {
    objects.delete(name);
    return { status: 204 };
  }
  if (method === "PATCH") {
    const change = describedBy(request.body);
    return change === null ? gcsError(400, "parseError", "Parse Error") : update(objects, name, stored, change);
  }
  if (!read) return gcsError(501, "notImplemented", `The fake does not serve ${method} of an object`);
  return media ? download(stored, request) : json(select(resource(name, stored), query.get("fields")));
}

function decoded(key: string): string | null {
  try {
    return decodeURIComponent(key);
  } catch {
    return null;
  }
}
