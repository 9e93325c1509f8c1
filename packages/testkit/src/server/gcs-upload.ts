// Uploads in one request: media (the bytes alone) and multipart (what is said of the object, and its bytes).
import { gcsError } from "./gcs-reply.js";
import { write, type Description } from "./gcs-object.js";
import type { Objects } from "./objects.js";
import type { Reply } from "./reply.js";
import type { ReceivedRequest } from "./script.js";

/** A request that did not come as a whole stores nothing. @internal */
export function uploadAtOnce(objects: Objects, bucket: string, request: ReceivedRequest): Reply {
  const query = request.url.searchParams;
  const hashes = request.headers["x-goog-hash"];
  if (!request.complete) return gcsError(503, "backendError", "The request ended before its body did.");
  if (query.get("uploadType") === "multipart") {
    const found = parts(request);
    if (found === null) return gcsError(400, "badRequest", "Malformed multipart body.");
    const { description, bytes } = found;
    const name = `${bucket}/${query.get("name") ?? description.name ?? ""}`;
    return write(objects, { name, bytes, description, query, hashes });
  }
  const contentType = request.headers["content-type"];
  const description = contentType === undefined ? {} : { contentType };
  return write(objects, {
    name: `${bucket}/${query.get("name") ?? ""}`,
    bytes: request.body,
    description,
    query,
    hashes,
  });
}

/** The two parts of a `multipart/related` body; null when they are not there. */
function parts(request: ReceivedRequest): { description: Description; bytes: Buffer } | null {
  const [, boundary] = /boundary="?([^";]+)/.exec(request.headers["content-type"] ?? "") ?? [];
  if (boundary === undefined) return null;
  const { body } = request;
  const after = (from: number): { head: string; begin: number; end: number } | null => {
    const begin = body.indexOf("\r\n\r\n", from) + 4;
    const end = body.indexOf(`\r\n--${boundary}`, begin);
    return begin < 4 || end < 0 ? null : { head: body.subarray(from, begin).toString(), begin, end };
  };
  const first = after(body.indexOf(`--${boundary}`));
  const second = first && after(first.end + 2);
  if (!first || !second) return null;
  const said = describedBy(body.subarray(first.begin, first.end));
  if (said === null) return null;
  // The type of the second part is the object's, unless the metadata say another.
  const [, contentType] = /^content-type:[ \t]*(.*?)[ \t]*\r$/im.exec(second.head) ?? [];
  const description = contentType === undefined ? said : { contentType, ...said };
  return { description, bytes: body.subarray(second.begin, second.end) };
}

/** The JSON in which a client describes an object; null when it is none. @internal */
export function describedBy(text: Buffer): Description | null {
  if (text.length === 0) return {};
  try {
    const said: unknown = JSON.parse(text.toString());
    return typeof said === "object" && said !== null ? said : null;
  } catch {
    return null;
  }
}
