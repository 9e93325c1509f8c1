// An object of the fake: as a resource in JSON, and the way in which every upload ends.
import { createHash } from "node:crypto";
import { nowMs } from "../system-clock.js";
import { crc32c } from "./crc32c.js";
import { metagenerationOf, refusedBy } from "./gcs-conditions.js";
import { select } from "./gcs-fields.js";
import { gcsError, json } from "./gcs-reply.js";
import { store, type Objects, type StoredObject } from "./objects.js";
import type { Reply } from "./reply.js";

/** What a client says about an object: the part of the resource that it may write. @internal */
export interface Description {
  readonly name?: string;
  readonly contentType?: string;
  readonly contentEncoding?: string;
  readonly contentDisposition?: string;
  readonly contentLanguage?: string;
  readonly cacheControl?: string;
  readonly storageClass?: string;
  /** In an update, `null` removes a key. */
  readonly metadata?: Readonly<Record<string, string | null>>;
  readonly crc32c?: string;
  readonly md5Hash?: string;
}

/** Fields of the resource, and the headers under which {@link StoredObject} keeps them. */
const keptFields = {
  contentType: "content-type",
  contentEncoding: "content-encoding",
  contentDisposition: "content-disposition",
  contentLanguage: "content-language",
  cacheControl: "cache-control",
  storageClass: "storage-class",
} as const;

const fields = Object.entries(keptFields) as [keyof typeof keptFields, string][];

/** A large object is listed often: its checksum is computed once. */
const sums = new WeakMap<Uint8Array, string>();

/** @internal */
export function crc32cOf(bytes: Uint8Array): string {
  const known = sums.get(bytes) ?? crc32c(bytes);
  sums.set(bytes, known);
  return known;
}

const now = (): string => new Date(nowMs()).toISOString();

/** The object resource of the JSON API; numbers of 64 bits are strings in it. @internal */
export function resource(name: string, stored: StoredObject): Record<string, unknown> {
  const { headers } = stored;
  const slash = name.indexOf("/");
  const [bucket, key] = [name.slice(0, slash), name.slice(slash + 1)];
  const generation = String(stored.generation);
  const updated = headers["updated"] ?? "2024-01-01T00:00:00.000Z";
  const said = fields.flatMap(([field, header]) => (header in headers ? [[field, headers[header]]] : []));
  const kmsKeyName = headers["kms-key-name"];
  return {
    kind: "storage#object",
    id: `${name}/${generation}`,
    bucket,
    name: key,
    generation,
    metageneration: String(metagenerationOf(stored)),
    size: String(stored.bytes.length),
    md5Hash: stored.md5.toString("base64"),
    crc32c: crc32cOf(stored.bytes),
    etag: etagOf(stored),
    contentType: "application/octet-stream",
    storageClass: "STANDARD",
    ...(Object.fromEntries(said) as Record<string, unknown>),
    // The version of the key that was in force is part of what the service answers.
    ...(kmsKeyName === undefined ? {} : { kmsKeyName: `${kmsKeyName}/cryptoKeyVersions/1` }),
    metadata: JSON.parse(headers["metadata"] ?? "{}") as unknown,
    timeCreated: headers["time-created"] ?? updated,
    updated,
  };
}

/** Opaque, and changed by an update of the metadata too. @internal */
export const etagOf = (stored: StoredObject): string => `made-up-${stored.generation}-${metagenerationOf(stored)}`;

/** @internal */
export interface Written {
  readonly name: string;
  readonly bytes: Buffer;
  readonly description: Description;
  /** Of the request that began the upload: its preconditions, `kmsKeyName`, `userProject`, `fields`. */
  readonly query: URLSearchParams;
  /** `X-Goog-Hash` of the request that ends it. */
  readonly hashes: string | undefined;
}

/** Stores an object whose bytes are all there, unless its preconditions or a checksum that came with it say no. @internal */
export function write(objects: Objects, o: Written): Reply {
  const refused = refusedName(o.name) ?? refusedBy(o.query, objects.get(o.name), false) ?? wrongHash(o);
  if (refused !== null) return refused;
  const stored = store(objects, o.name, o.bytes, headersOf(o.description, o.query));
  return json(select(resource(o.name, stored), o.query.get("fields")));
}

function headersOf(description: Description, query: URLSearchParams): Record<string, string> {
  const time = now();
  const headers: Record<string, string> = {
    metadata: JSON.stringify(withoutNull(description.metadata ?? {})),
    "time-created": time,
    updated: time,
  };
  const contentEncoding = query.get("contentEncoding") ?? description.contentEncoding;
  const said = { ...description, ...(contentEncoding === undefined ? {} : { contentEncoding }) };
  for (const [field, header] of fields) if (said[field] !== undefined) headers[header] = said[field];
  const [kmsKeyName, userProject] = [query.get("kmsKeyName"), query.get("userProject")];
  if (kmsKeyName !== null) headers["kms-key-name"] = kmsKeyName;
  if (userProject !== null) headers["user-project"] = userProject;
  return headers;
}

const withoutNull = (metadata: Readonly<Record<string, string | null>>): Record<string, string | null> =>
  Object.fromEntries(Object.entries(metadata).filter(([, value]) => value !== null));

/** Names of `bucket/key` that the service does not take. @internal */
export function refusedName(name: string): Reply | null {
  const key = name.slice(name.indexOf("/") + 1);
  const bytes = Buffer.byteLength(key);
  if (key === "") return gcsError(400, "required", "Required parameter: name");
  if (bytes > 1024) {
    return gcsError(400, "invalid", `The maximum object length is 1024 characters, but got a name with ${bytes}.`);
  }
  const disallowed = /[\r\n]/.test(key) || key === "." || key === "..";
  return disallowed ? gcsError(400, "invalid", "Disallowed unicode characters present in object name.") : null;
}

/** A checksum that came with an upload, in its metadata or in `X-Goog-Hash`, and is not that of its bytes: nothing is stored. */
function wrongHash({ bytes, description, hashes = "" }: Written): Reply | null {
  const given = [
    ["crc32c", description.crc32c],
    ["md5", description.md5Hash],
    ...hashes.split(",").map((one) => {
      const [, name = "", value] = /^\s*(\w+)=(.*?)\s*$/.exec(one) ?? [];
      return [name, value];
    }),
  ] as const;
  for (const [name, value] of given) {
    if (value === undefined || (name !== "crc32c" && name !== "md5")) continue;
    const own = name === "md5" ? createHash("md5").update(bytes).digest("base64") : crc32cOf(bytes);
    if (value === own) continue;
    const what = name === "md5" ? "MD5 hash" : "CRC32C";
    return gcsError(400, "invalid", `Provided ${what} "${value}" doesn't match calculated ${what} "${own}".`);
  }
  return null;
}

/** PATCH: merges what is given into the resource. The generation stays, the metageneration grows. @internal */
export function update(objects: Objects, name: string, stored: StoredObject, change: Description): Reply {
  const before = JSON.parse(stored.headers["metadata"] ?? "{}") as Record<string, string>;
  const headers: Record<string, string> = {
    ...stored.headers,
    metadata: JSON.stringify(withoutNull({ ...before, ...change.metadata })),
    metageneration: String(metagenerationOf(stored) + 1),
    updated: now(),
  };
  for (const [field, header] of fields) if (change[field] !== undefined) headers[header] = change[field];
  const updated = { ...stored, headers };
  objects.set(name, updated);
  return json(resource(name, updated));
}
