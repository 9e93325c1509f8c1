import type { Settings } from "./options.js";

// Addresses and parameters of the JSON API. They are complete, so that the vendor's code changes nothing in them: it takes slashes from
// the ends of relative ones and replaces `{{projectId}}` in the parameters that it puts together itself.

type Parameters = Readonly<Record<string, string | number | undefined>>;

/** What a request about one object asks for; a server that does not know `fields` gives more. */
export const objectFields = "kind,name,size,generation,metageneration,timeCreated,crc32c,contentEncoding,metadata";
const pageFields = "kind,nextPageToken,items(name,size,generation,timeCreated)";

const bucketPath = (s: Settings, before = ""): string =>
  `${s.endpoint}${before}/storage/v1/b/${encodeURIComponent(s.bucket)}/o`;

function withQuery(s: Settings, address: string, parameters: Parameters): string {
  const query = new URLSearchParams(s.everywhere);
  for (const [name, value] of Object.entries(parameters)) if (value !== undefined) query.set(name, String(value));
  // Not every server reads a plus sign as a space.
  const text = query.toString().replaceAll("+", "%20");
  return text === "" ? address : `${address}?${text}`;
}

/** An object by its key; slashes and all that is not plain is encoded. */
export const objectAddress = (s: Settings, key: string, parameters: Parameters = {}): string =>
  withQuery(s, `${bucketPath(s)}/${encodeURIComponent(s.keyPrefix + key)}`, parameters);

export const uploadAddress = (s: Settings, parameters: Parameters): string =>
  withQuery(s, bucketPath(s, "/upload"), { ...s.onWrite, fields: objectFields, ...parameters });

export const listAddress = (s: Settings, parameters: Parameters): string =>
  withQuery(s, bucketPath(s), { ...parameters, fields: pageFields });

/**
 * The address of an upload session, always on this store's own server: the server names it, and what a request to it carries, the token
 * above all, goes nowhere else.
 */
export function sessionAddress(s: Settings, location: string): string | null {
  if (!URL.canParse(location, s.endpoint)) return null;
  const { pathname, search } = new URL(location, s.endpoint);
  return new URL(s.endpoint).origin + pathname + search;
}
