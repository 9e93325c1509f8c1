import { ObjectStoreError } from "./errors.js";
import { compareKeys } from "./keys.js";
import { checkLimit } from "./range.js";
import type { Call, ObjectInfo, ObjectStore } from "./store.js";

/**
 * A listing in pages of at most `pageSize` (a whole number of at least 1), each page asked for when it is wanted. `cursor` of a page
 * is its last key: give it as `startAfter`, in another process or a year later, to go on behind that page. No empty page comes.
 *
 * Trusts nothing: a key outside the prefix, out of order, or coming a second time, and a page of more than was asked for, are
 * `CORRUPT`, since a reconcile that goes on behind a wrong cursor would miss objects for good. Errors otherwise as for `list`;
 * `INVALID_RANGE` for the page size. Does not promise one moment in time: objects that come or go between pages may be missed or seen.
 */
export async function* listPages(
  store: ObjectStore,
  o: { readonly prefix: string; readonly startAfter?: string; readonly pageSize: number } & Call,
): AsyncGenerator<{ readonly infos: readonly ObjectInfo[]; readonly cursor: string }, void, undefined> {
  const { prefix, pageSize, signal } = o;
  checkLimit(pageSize);
  let cursor = o.startAfter;
  for (;;) {
    const infos: ObjectInfo[] = [];
    const page = store.list({
      prefix,
      limit: pageSize,
      signal,
      ...(cursor === undefined ? {} : { startAfter: cursor }),
    });
    for await (const info of page) {
      const wrong = whatIsWrong(info.key, prefix, cursor, infos.length === pageSize);
      if (wrong !== null) {
        const what = `the listing of ${JSON.stringify(prefix)} in store ${store.storeId} gave ${JSON.stringify(info.key)}, ${wrong}`;
        throw new ObjectStoreError("CORRUPT", `${what}; nothing behind it can be trusted`);
      }
      cursor = info.key;
      infos.push(info);
    }
    if (cursor === undefined || infos.length === 0) return;
    yield { infos, cursor };
    if (infos.length < pageSize) return;
  }
}

function whatIsWrong(key: string, prefix: string, after: string | undefined, full: boolean): string | null {
  if (full) return "which is more than was asked for";
  if (!key.startsWith(prefix)) return "which does not start with that";
  if (after !== undefined && compareKeys(key, after) <= 0) return `which does not come after ${JSON.stringify(after)}`;
  return null;
}
