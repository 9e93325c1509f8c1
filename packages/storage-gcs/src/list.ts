import { compareKeys, type ObjectInfo, type ObjectStoreError } from "@holdfast/object-store";
import { corrupt } from "./failure.js";
import { listAddress } from "./api.js";
import type { Settings } from "./options.js";
import { ask, sendRepeatedly, valueOf } from "./requests.js";
import { fieldsOf, listedInfoOf, resourceOf, type Resource } from "./resource.js";

/** What GCS puts into one page at most. */
const pageKeys = 1000;
/** So many pages in a row may have no new key; GCS may give some, and a server that has lost its place gives them without end. */
const emptyPagesMax = 100;

type Page = { readonly entries: readonly Resource[]; readonly token: string | undefined };

/**
 * The objects under a prefix, page by page. A page that is not the next one (a token that was given since the last key, too many pages
 * without a key, keys out of order or without the prefix) is `CORRUPT`: a listing that continues from a wrong place would miss objects.
 */
export async function* listObjects(
  s: Settings,
  o: { readonly prefix: string; readonly startAfter?: string; readonly signal: AbortSignal },
  limit: number,
): AsyncGenerator<ObjectInfo, void, undefined> {
  const prefix = s.keyPrefix + o.prefix;
  const { startAfter = "" } = o;
  let last = startAfter;
  let left = limit;
  let token: string | undefined;
  let emptyPages = 0;
  const tokens = new Set<string>();
  for (;;) {
    // The API's start is inclusive: one more is asked for, and the one that it names is left out.
    const more = token === undefined && startAfter !== "" ? 1 : 0;
    const page = await readPage(s, { prefix, startAfter, token, keys: Math.min(left + more, pageKeys) }, o.signal);
    const before = last;
    for (const entry of page.entries) {
      const own = ownKey(s, entry.name, o.prefix);
      if (own === startAfter && last === startAfter && more === 1) continue;
      if (own === null || (last !== "" && compareKeys(own, last) <= 0)) throw astray(prefix, entry.name);
      // What consoles make of a prefix, an object of its very name: nothing is left of it that could be a key.
      if (own === "") continue;
      last = own;
      yield listedInfoOf(own, entry);
      if (--left === 0) return;
    }
    if (page.token === undefined) return;
    if (last !== before) {
      tokens.clear();
      emptyPages = 0;
    } else if (++emptyPages > emptyPagesMax) {
      throw corrupt(
        `the listing of ${JSON.stringify(prefix)}`,
        `${emptyPages} pages in a row came without a key, and more to come`,
      );
    }
    if (tokens.has(page.token)) throw astray(prefix, last);
    tokens.add(page.token);
    token = page.token;
  }
}

const ownKey = (s: Settings, name: string, prefix: string): string | null =>
  name.startsWith(s.keyPrefix) && name.startsWith(prefix, s.keyPrefix.length) ? name.slice(s.keyPrefix.length) : null;

async function readPage(
  s: Settings,
  o: {
    readonly prefix: string;
    readonly startAfter: string;
    readonly token: string | undefined;
    readonly keys: number;
  },
  signal: AbortSignal,
): Promise<Page> {
  const what = `listing of ${JSON.stringify(o.prefix)}`;
  const address = listAddress(s, {
    prefix: o.prefix === "" ? undefined : o.prefix,
    startOffset: o.startAfter === "" ? undefined : s.keyPrefix + o.startAfter,
    maxResults: o.keys,
    pageToken: o.token,
  });
  const done = await sendRepeatedly(s, signal, () =>
    ask(s, { what, signal, method: "GET", address, absent: "bucket" }),
  );
  return pageOf(what, valueOf(done).value);
}

function pageOf(what: string, value: unknown): Page {
  const said = fieldsOf(value);
  const { items = [], nextPageToken: token } = said;
  // Every real answer names its kind. An empty body, or a page of somebody else's, would read as an empty bucket.
  if (said["kind"] !== "storage#objects" || !Array.isArray(items)) {
    throw corrupt(what, "it was answered with something that is no listing; look at apiEndpoint");
  }
  if (token !== undefined && (typeof token !== "string" || token === ""))
    throw corrupt(what, "a page token is no text");
  const entries = items.map((item: unknown) => resourceOf(item));
  if (entries.some((entry) => entry === null)) {
    throw corrupt(what, "an entry has no name, size or generation; nothing that the listing says can be trusted");
  }
  return { entries: entries as Resource[], token };
}

const astray = (prefix: string, key: string): ObjectStoreError =>
  corrupt(
    `the listing of ${JSON.stringify(prefix)}`,
    `it does not go forward at ${JSON.stringify(key)}: the server repeats or loses its place; nothing behind it can be trusted`,
  );
