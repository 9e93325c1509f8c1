// Lists of objects, in pages.
import { select } from "./gcs-fields.js";
import { resource } from "./gcs-object.js";
import { json } from "./gcs-reply.js";
import { page, type Objects } from "./objects.js";
import type { Reply } from "./reply.js";

/** `prefix`, `startOffset` (that key is in it), `endOffset` (that one is not), `maxResults`, `pageToken`, `fields`. Without objects there is no `items`. @internal */
export function list(objects: Objects, bucket: string, query: URLSearchParams): Reply {
  const token = query.get("pageToken");
  const after = token === null ? "" : Buffer.from(token, "base64url").toString();
  const asked = Number(query.get("maxResults") ?? 1000);
  const most = Number.isInteger(asked) && asked > 0 ? Math.min(1000, asked) : 1000;
  const { keys, next } = page(objects, {
    bucket,
    prefix: query.get("prefix") ?? "",
    after,
    from: query.get("startOffset") ?? "",
    before: query.get("endOffset") ?? "",
    most,
  });
  const items = keys.flatMap((key) => {
    const stored = objects.get(`${bucket}/${key}`);
    return stored === undefined ? [] : [resource(`${bucket}/${key}`, stored)];
  });
  const answer = {
    kind: "storage#objects",
    ...(next === undefined ? {} : { nextPageToken: Buffer.from(next).toString("base64url") }),
    ...(items.length === 0 ? {} : { items }),
  };
  return json(select(answer, query.get("fields")));
}
