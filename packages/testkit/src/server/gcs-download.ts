// Downloads (`alt=media`): ranges, checksums in headers, and objects that are stored gzip-encoded.
import { gunzipSync } from "node:zlib";
import { crc32cOf, etagOf } from "./gcs-object.js";
import { metagenerationOf } from "./gcs-conditions.js";
import { textError } from "./gcs-reply.js";
import { rangeOf, type StoredObject } from "./objects.js";
import type { Reply } from "./reply.js";
import type { ReceivedRequest } from "./script.js";

/**
 * The bytes of an object, or a range of them. An object that is stored with `Content-Encoding: gzip` is decoded on its way unless the request accepts
 * gzip or the object says `no-transform`: then the answer has no length, the checksums in its headers are those of the stored bytes, and a Range
 * is ignored (decompressive transcoding).
 * @internal
 */
export function download(stored: StoredObject, request: ReceivedRequest): Reply {
  const { bytes } = stored;
  const headers = headersOf(stored);
  if (stored.headers["content-encoding"] === "gzip") {
    const decoded = asItIs(stored, request) ? null : gunzipped(bytes);
    if (decoded !== null) {
      const said = { "Accept-Ranges": "none", Warning: '214 UploadServer "Transformation Applied"' };
      return { headers: { ...headers, ...said }, framing: "chunked", body: decoded };
    }
  }
  const encoding = stored.headers["content-encoding"];
  const own = {
    ...headers,
    "Accept-Ranges": "bytes",
    ...(encoding === undefined ? {} : { "Content-Encoding": encoding }),
  };
  const range = rangeOf(request.headers["range"], bytes.length);
  if (range === undefined) {
    return textError(416, "The requested range cannot be satisfied.", { "Content-Range": `bytes */${bytes.length}` });
  }
  if (range === null) return { headers: own, body: bytes };
  const said = { ...own, "Content-Range": `bytes ${range.from}-${range.to}/${bytes.length}` };
  return { status: 206, headers: said, body: bytes.subarray(range.from, range.to + 1) };
}

function headersOf(stored: StoredObject): Record<string, string> {
  const { headers, bytes, md5, generation } = stored;
  const updated = headers["updated"];
  return {
    "Content-Type": headers["content-type"] ?? "application/octet-stream",
    ETag: etagOf(stored),
    ...(updated === undefined ? {} : { "Last-Modified": new Date(updated).toUTCString() }),
    "X-Goog-Generation": String(generation),
    "X-Goog-Metageneration": String(metagenerationOf(stored)),
    "X-Goog-Hash": `crc32c=${crc32cOf(bytes)},md5=${md5.toString("base64")}`,
    "X-Goog-Storage-Class": headers["storage-class"] ?? "STANDARD",
    "X-Goog-Stored-Content-Encoding": headers["content-encoding"] ?? "identity",
    "X-Goog-Stored-Content-Length": String(bytes.length),
  };
}

/** Served as stored: the client accepts gzip, or the object is not to be changed on its way. */
function asItIs(stored: StoredObject, request: ReceivedRequest): boolean {
  const accepted = (request.headers["accept-encoding"] ?? "").split(",");
  const gzip = accepted.some((one) => /^\s*(?:gzip|\*)\s*(?:;\s*q=(?!0(?:\.0*)?\s*$).*)?$/.test(one));
  return gzip || /\bno-transform\b/.test(stored.headers["cache-control"] ?? "");
}

/** Null when the bytes are no gzip, whatever the object says. */
function gunzipped(bytes: Buffer): Buffer | null {
  try {
    return gunzipSync(bytes);
  } catch {
    return null;
  }
}
