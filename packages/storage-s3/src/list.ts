import { ListObjectsV2Command, type ListObjectsV2CommandOutput } from "@aws-sdk/client-s3";
import { compareKeys, ObjectStoreError, type ObjectInfo } from "@holdfast/object-store";
import { infoOf } from "./info.js";
import type { Settings } from "./options.js";
import { valueOf } from "./read.js";
import { sendOnce, sendRepeatedly } from "./requests.js";

/** What S3 puts into one page at most. */
const pageKeys = 1000;

/** Pages without a key, one after another, that a server may need to pass what it does not list (versions that were deleted, for one). */
const emptyPagesMax = 100;

/**
 * The objects under a prefix, page by page. A page that is not the next one (a token that was lost or that repeats, keys out of order or
 * without the prefix, fewer of them than it counts) is `CORRUPT`: a listing that continues after a wrong place would miss objects. So are more than
 * 100 pages in a row without a key: a server that always has a new token would never end.
 */
export async function* listObjects(
  s: Settings,
  o: { readonly prefix: string; readonly startAfter?: string; readonly signal: AbortSignal },
  limit: number,
): AsyncGenerator<ObjectInfo, void, undefined> {
  const prefix = s.keyPrefix + o.prefix;
  let last = o.startAfter ?? "";
  let left = limit;
  let token: string | undefined;
  const place = new Place();
  for (;;) {
    const page = await readPage(
      s,
      { prefix, startAfter: last === "" ? "" : s.keyPrefix + last, token, keys: Math.min(left, pageKeys) },
      o.signal,
    );
    // Every real answer says whether there is more. An empty body, or a page of somebody else's, would read as an empty bucket.
    if (page.IsTruncated === undefined) {
      const what = `the listing of ${JSON.stringify(prefix)}`;
      throw new ObjectStoreError(
        "CORRUPT",
        `${what} was answered with something that is no listing; look at endpoint and style`,
      );
    }
    const before = last;
    const entries = page.Contents ?? [];
    // Only this way round: an entry too few is an object that nobody sees, and not every store of the protocol counts.
    if ((page.KeyCount ?? 0) > entries.length) throw miscounted(prefix, page.KeyCount, entries.length);
    for (const entry of entries) {
      const { Key: name = "", Size: size } = entry;
      if (name === "" || size === undefined) throw incomplete(prefix);
      const key = decodedKey(name, page.EncodingType === "url");
      // A name that no string of ours can be is somebody else's; it is left out and stops nobody.
      if (key === null) continue;
      const own = ownKey(s, key, o.prefix);
      if (own === null || (last !== "" && compareKeys(own, last) <= 0)) throw astray(prefix, key);
      // What consoles make of a prefix, an object of its very name: nothing is left of it that could be a key.
      if (own === "") continue;
      last = own;
      yield infoOf(own, size, { ETag: entry.ETag, LastModified: entry.LastModified });
      if (--left === 0) return;
    }
    if (!page.IsTruncated) return;
    const next = page.NextContinuationToken;
    // Names that are no keys do not count: a server that repeats them for ever would otherwise never end.
    if (!place.advances(next, last !== before)) throw astray(prefix, last);
    if (place.emptyPages > emptyPagesMax) throw endless(prefix, last);
    token = next;
  }
}

/** Where a listing is, as far as its tokens show it. */
class Place {
  /** Tokens of the pages since the last key: one of them again would lead around the same pages for ever. */
  readonly #tokens = new Set<string>();
  #token: string | undefined;
  /** Pages in a row that brought no key. */
  emptyPages = 0;

  /** Takes the token of the page after this one; without one the next page begins after the last key, which must be new. */
  advances(next: string | undefined, hadKeys: boolean): boolean {
    if (hadKeys) {
      this.#tokens.clear();
      this.emptyPages = 0;
    } else this.emptyPages += 1;
    if (this.#token !== undefined) this.#tokens.add(this.#token);
    this.#token = next;
    return next === undefined ? hadKeys : !this.#tokens.has(next);
  }
}

const ownKey = (s: Settings, key: string, prefix: string): string | null =>
  key.startsWith(s.keyPrefix) && key.startsWith(prefix, s.keyPrefix.length) ? key.slice(s.keyPrefix.length) : null;

async function readPage(
  s: Settings,
  o: {
    readonly prefix: string;
    readonly startAfter: string;
    readonly token: string | undefined;
    readonly keys: number;
  },
  signal: AbortSignal,
): Promise<ListObjectsV2CommandOutput> {
  const what = `listing of ${JSON.stringify(o.prefix)}`;
  const done = await sendRepeatedly(s, signal, () => {
    const command = new ListObjectsV2Command({
      ...s.everywhere,
      MaxKeys: o.keys,
      // XML cannot carry every key: without this, one key with a control character makes its page unreadable.
      EncodingType: "url",
      ...(o.prefix === "" ? {} : { Prefix: o.prefix }),
      ...(o.token !== undefined
        ? { ContinuationToken: o.token }
        : o.startAfter === ""
          ? {}
          : { StartAfter: o.startAfter }),
    });
    return sendOnce(s, { what, signal }, command, (options) => s.client.send(command, options));
  });
  return valueOf(done);
}

/** The key behind a listed name, decoded only when the answer says that it is encoded; `null` when it is not UTF-8. */
function decodedKey(name: string, encoded: boolean): string | null {
  if (!encoded) return name;
  try {
    // As in a form: a space may come as "+", and a plus is always "%2B".
    return decodeURIComponent(name.replaceAll("+", "%20"));
  } catch {
    return null;
  }
}

const incomplete = (prefix: string): ObjectStoreError =>
  new ObjectStoreError(
    "CORRUPT",
    `the listing of ${JSON.stringify(prefix)} has an entry without key or size; nothing that it says can be trusted`,
  );

const miscounted = (prefix: string, counted: number | undefined, came: number): ObjectStoreError =>
  new ObjectStoreError(
    "CORRUPT",
    `a page of the listing of ${JSON.stringify(prefix)} counts ${counted} entries and has ${came}; something on the way loses them`,
  );

function endless(prefix: string, key: string): ObjectStoreError {
  const what = `more than ${emptyPagesMax} pages in a row of the listing of ${JSON.stringify(prefix)} after ${JSON.stringify(key)} have no key`;
  return new ObjectStoreError("CORRUPT", `${what}, and each says that there is more; the server has lost its place`);
}

function astray(prefix: string, key: string): ObjectStoreError {
  const what = `the listing of ${JSON.stringify(prefix)} does not go forward at ${JSON.stringify(key)}`;
  return new ObjectStoreError(
    "CORRUPT",
    `${what}: the server repeats or loses its place; nothing behind it can be trusted`,
  );
}
