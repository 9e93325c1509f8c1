// Resumable uploads: sessions that keep bytes until the last has come.
import { refusedBy } from "./gcs-conditions.js";
import { gcsError, textError } from "./gcs-reply.js";
import { refusedName, write, type Description } from "./gcs-object.js";
import { describedBy } from "./gcs-upload.js";
import type { Objects } from "./objects.js";
import type { Reply } from "./reply.js";
import type { ReceivedRequest } from "./script.js";

/** A resumable upload, as it stands. */
export interface GcsSession {
  readonly id: string;
  /** `bucket/key`. */
  readonly name: string;
  /** Bytes that the server keeps. */
  readonly receivedBytes: number;
  readonly state: "open" | "complete" | "deleted" | "expired";
  /** Requests to its address so far, status queries included. */
  readonly requests: number;
}

/** How many of the bytes that a request brought are kept: with fewer than came, the rest has to be sent again. */
export type KeptBytes = (session: GcsSession, newBytes: number) => number;

/** @internal */
export interface SessionRules {
  readonly keptBytes: KeptBytes;
  readonly chunkMultiple: number;
}

class Session {
  readonly pieces: Buffer[] = [];
  receivedBytes = 0;
  state: GcsSession["state"] = "open";
  requests = 0;
  /** What a session that is gone is answered with. */
  gone: 404 | 410 = 404;
  /** The answer that completed it, given again to whoever asks. */
  completed: Reply | null = null;

  constructor(
    readonly id: string,
    readonly name: string,
    readonly description: Description,
    readonly query: URLSearchParams,
    readonly size: number | null,
  ) {}

  seen(): GcsSession {
    const { id, name, receivedBytes, state, requests } = this;
    return { id, name, receivedBytes, state, requests };
  }

  /** 308: the bytes that are kept; without a Range when there are none. */
  incomplete(): Reply {
    const headers = this.receivedBytes === 0 ? {} : { Range: `bytes=0-${this.receivedBytes - 1}` };
    return { status: 308, headers };
  }
}

/** What a Content-Range says: where the bytes of this request begin, and how long the object is; null: not said. */
interface Range {
  /** Null: the request only asks how far the upload is, or says how long the object is. */
  readonly from: number | null;
  readonly last: number | null;
  readonly total: number | null;
}

/** @internal */
export class Sessions {
  readonly #sessions = new Map<string, Session>();

  constructor(
    readonly objects: Objects,
    readonly rules: SessionRules,
  ) {}

  list(): readonly GcsSession[] {
    return [...this.#sessions.values()].map((session) => session.seen());
  }

  expire(status: 404 | 410): void {
    for (const session of this.#sessions.values()) {
      if (session.state === "open") Object.assign(session, { state: "expired", gone: status });
    }
  }

  /** Preconditions are looked at here too, so that a client need not send bytes in vain; they decide at the end. */
  start(bucket: string, request: ReceivedRequest): Reply {
    const query = request.url.searchParams;
    const said = describedBy(request.body);
    if (said === null) return gcsError(400, "parseError", "Parse Error");
    const name = `${bucket}/${query.get("name") ?? said.name ?? ""}`;
    const refused = refusedName(name) ?? refusedBy(query, this.objects.get(name), false);
    if (refused !== null) return refused;
    const contentType = request.headers["x-upload-content-type"];
    const description = contentType === undefined ? said : { contentType, ...said };
    const size = request.headers["x-upload-content-length"];
    const id = `session-${this.#sessions.size + 1}`;
    this.#sessions.set(id, new Session(id, name, description, query, size === undefined ? null : Number(size)));
    const here = new URL(`http://${request.headers["host"] ?? "server"}${request.target}`);
    here.searchParams.set("upload_id", id);
    return { headers: { Location: here.href, "X-GUploader-UploadID": id } };
  }

  /** A request to the address of a session: bytes, a status query (`bytes *\/…`), or DELETE. */
  proceed(id: string, request: ReceivedRequest): Reply {
    const session = this.#sessions.get(id);
    if (session === undefined) return gcsError(404, "notFound", "No such upload session.");
    session.requests += 1;
    if (session.completed !== null && request.method !== "DELETE") return session.completed;
    if (session.state !== "open") return gcsError(session.gone, session.gone === 404 ? "notFound" : "gone");
    if (request.method === "DELETE") {
      session.state = "deleted";
      return { status: 499 };
    }
    const range = rangeOf(request.headers["content-range"]);
    if (range === null) return gcsError(400, "badRequest", "Failed to parse Content-Range header.");
    return this.#receive(session, range, request) ?? this.#finishOr308(session, range, request);
  }

  /** Keeps the bytes; a reply when they cannot be of this upload. */
  #receive(session: Session, range: Range, request: ReceivedRequest): Reply | null {
    const { from, last, total } = range;
    if (from === null) return null;
    const { body, complete } = request;
    const { receivedBytes } = session;
    if (from > receivedBytes) {
      const offset = `the upload offset is ${from} byte(s), which exceeds already uploaded size of ${receivedBytes} byte(s)`;
      return textError(503, `Invalid request. According to the Content-Range header, ${offset}.`);
    }
    if (complete && last !== null && body.length !== last - from + 1) {
      return gcsError(400, "badRequest", `Content-Range announces ${last - from + 1} bytes, and ${body.length} came.`);
    }
    const end = from + body.length;
    if (total !== null && end > total) return gcsError(400, "badRequest", "More bytes than the size of the object.");
    const isLast = last === null || end === total;
    if (complete && !isLast && body.length % this.rules.chunkMultiple !== 0) {
      return gcsError(
        400,
        "badRequest",
        `Every chunk but the last has to be a multiple of ${this.rules.chunkMultiple}.`,
      );
    }
    // Bytes that are kept already are not replaced by those that come again.
    const fresh = body.subarray(Math.min(body.length, receivedBytes - from));
    const kept = fresh.subarray(0, Math.max(0, this.rules.keptBytes(session.seen(), fresh.length)));
    session.pieces.push(kept);
    session.receivedBytes += kept.length;
    return null;
  }

  #finishOr308(session: Session, range: Range, request: ReceivedRequest): Reply {
    const { from, last, total } = range;
    // Without a last byte (`bytes 0-*/*`) the end of the request is the end of the object.
    const open = from !== null && last === null && total === null;
    const size = total ?? (open ? from + request.body.length : null);
    if (!request.complete || size === null || session.receivedBytes !== size) return session.incomplete();
    if (session.size !== null && session.size !== size) {
      return gcsError(400, "badRequest", `The upload was begun for ${session.size} bytes, and has ${size}.`);
    }
    const bytes = Buffer.concat(session.pieces);
    const { name, description, query } = session;
    const reply = write(this.objects, { name, bytes, description, query, hashes: request.headers["x-goog-hash"] });
    if ((reply.status ?? 200) >= 300) return reply;
    session.state = "complete";
    session.completed = reply;
    session.pieces.length = 0;
    return reply;
  }
}

/** `bytes 0-9/20`, `bytes 0-9/*`, `bytes 0-*\/*`, `bytes *\/20`, `bytes *\/*`; without one the request is the whole object. */
function rangeOf(header: string | undefined): Range | null {
  const found = /^bytes (?:(\d+)-(\d+|\*)|\*)\/(\d+|\*)$/.exec(header ?? "bytes 0-*/*");
  if (found === null) return null;
  const [, from, last, total] = found;
  const number = (text: string | undefined): number | null =>
    text === undefined || text === "*" ? null : Number(text);
  return { from: number(from), last: number(last), total: number(total) };
}
