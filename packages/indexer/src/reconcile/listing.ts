import type { ObjectInfo } from "@holdfast/object-store";
import { catalogPrefix, listFrom, parsePackKey, type PackKeyParts } from "../keys.js";
import type { StoreAccess } from "../store-access.js";
import type { Cursors } from "./cursors.js";

export type Listed = { readonly info: ObjectInfo; readonly parts: PackKeyParts };

export type ListingCounts = { objects: number; requests: number; foreign: number; writers: Set<string> };

const pageObjects = 1000;

/**
 * Lists a catalog's pack and void keys in key order, in groups of at most a page. What lies below a writer's cursor is
 * jumped over: one small request per writer whose numbers are all accounted for. A full listing jumps over nothing.
 *
 * New writers need no register: behind the last key of one writer comes the first key of the next.
 */
export async function* listCatalog(o: {
  store: StoreAccess;
  catalog: string;
  cursors: Cursors;
  full: boolean;
  counts: ListingCounts;
  signal?: AbortSignal | undefined;
}): AsyncGenerator<readonly Listed[], void, undefined> {
  const prefix = catalogPrefix(o.catalog);
  let startAfter = prefix;
  let limit = o.full ? pageObjects : 1;
  for (;;) {
    o.counts.requests += 1;
    const page = await o.store.page({ prefix, startAfter, limit }, o.signal);
    const last = page.at(-1);
    if (last === undefined) return;
    const { group, jump, foreign } = takeUntilJump(page, o);
    if (jump === null && limit === 1) {
      // The probe met something that is not accounted for: list it properly, from the same place.
      limit = pageObjects;
      continue;
    }
    o.counts.objects += group.length + foreign;
    o.counts.foreign += foreign;
    if (group.length > 0) yield group;
    if (jump === null && page.length < limit) return;
    startAfter = jump ?? last.key;
    limit = jump === null ? pageObjects : 1;
  }
}

/** The objects up to the first that a writer's cursor has passed, and where to go on from there. */
function takeUntilJump(
  page: readonly ObjectInfo[],
  o: { catalog: string; cursors: Cursors; full: boolean; counts: ListingCounts },
): { group: readonly Listed[]; foreign: number; jump: string | null } {
  const group: Listed[] = [];
  let foreign = 0;
  for (const info of page) {
    const parts = parsePackKey(info.key);
    if (parts?.catalog !== o.catalog) {
      foreign += 1;
      continue;
    }
    const { writerId } = parts;
    o.counts.writers.add(writerId);
    const { next } = o.cursors.of(writerId);
    if (!o.full && parts.sequence < next) {
      return { group, foreign, jump: listFrom({ catalog: o.catalog, writerId, sequence: next }) };
    }
    group.push({ info, parts });
  }
  return { group, foreign, jump: null };
}
