import {
  checkLimit,
  checkPrefix,
  compareKeys,
  throwIfAborted,
  type Call,
  type ObjectInfo,
  type ObjectStore,
} from "@holdfast/object-store";
import { ask, bare, corrupt, unavailable, type Client } from "./client.js";
import type { ReferenceLie } from "./lies.js";
import type { WireAnswer, WireRequest } from "./wire.js";

const never: AbortSignal = new AbortController().signal;
/** The first pages are small, so that a listing of eight objects has three of them. */
const pageSizes = [3, 3, 3];
const pageSizeMax = 1000;
const emptyPagesMax = 10;

export async function* listObjects(
  client: Client,
  o: Parameters<ObjectStore["list"]>[0],
): AsyncGenerator<ObjectInfo, void, undefined> {
  const { prefix, signal } = o;
  checkPrefix(prefix);
  checkPrefix(o.startAfter ?? "");
  let left = checkLimit(o.limit);
  throwIfAborted(signal);
  let last = o.startAfter;
  let token: string | undefined;
  let empty = 0;
  for (let page = 0; ; page++) {
    const pageSize = Math.min(pageSizes[page] ?? pageSizeMax, left);
    const from = token === undefined ? (last === undefined ? {} : { startAfter: last }) : { token };
    const answer = await pageOf(client, { op: "list", key: prefix, pageSize, ...from }, signal);
    if (answer === "the end") return;
    if (answer === "the token is refused") {
      token = undefined;
      continue;
    }
    const items = checked(client.lie, answer, prefix, last, pageSize);
    for (const { key, size, etag, modifiedAtMs } of items) {
      const short = client.lie === "an etag of a listing loses two letters";
      yield { key, size, etag: short ? etag.slice(1, -1) : bare(etag), metadata: {}, modifiedAtMs };
      throwIfAborted(signal);
      last = key;
      if (--left === 0 && client.lie !== "a long page is taken") return;
    }
    if (left <= 0 || !answer.more) return;
    if (items.length === 0 && client.lie === "an empty page is the end") return;
    if (items.length === 0 && ++empty > emptyPagesMax) throw unavailable("page after page was empty");
    if (answer.token === undefined && client.lie === "no token is the end") return;
    // Without a token, and after one that was refused, it goes on behind the last key.
    token = answer.token;
  }
}

async function pageOf(
  client: Client,
  request: WireRequest,
  signal: AbortSignal,
): Promise<NonNullable<WireAnswer["page"]> | "the end" | "the token is refused"> {
  const { lie } = client;
  const ends: Partial<Record<ReferenceLie, (answer: WireAnswer | null) => boolean>> = {
    "503 on list is the end": (answer) => answer?.status === 503,
    "500 on list is the end": (answer) => answer?.status === 500,
    "403 on list is the end": (answer) => answer?.status === 403,
    "200 on list is the end": (answer) => answer?.status === 200 && answer.error !== undefined,
    "a reset list is the end": (answer) => answer === null,
  };
  const blind = lie === undefined ? undefined : ends[lie];
  const seen = blind === undefined ? undefined : await client.wire(request).catch(() => null);
  if (seen !== undefined && blind?.(seen) === true) return "the end";
  const call: Call = { signal: lie === "a stalled list waits" ? never : signal };
  const answer = seen?.page === undefined ? await ask(client, request, call) : seen;
  if (answer.status === 400) return lie === "a refused token is the end" ? "the end" : "the token is refused";
  if (answer.page === undefined) throw unavailable(`a listing was answered ${answer.status}`);
  return answer.page;
}

type Items = NonNullable<WireAnswer["page"]>["items"];

/** The entries of a page, each behind the one before and below the prefix, and as many as it counts. */
function checked(
  lie: ReferenceLie | undefined,
  page: NonNullable<WireAnswer["page"]>,
  prefix: string,
  after: string | undefined,
  pageSize: number,
): Items {
  const { items, count } = page;
  if (lie === "a stuck listing goes on" && page.token === "after:") return items;
  if (items.length !== count && lie !== "the count of a page is not looked at") {
    throw corrupt(`a page counts ${count} entries and has ${items.length}`);
  }
  if (items.length > pageSize && lie === "a long page is taken") return items;
  let last = after;
  for (const [i, { key }] of items.entries()) {
    if (!key.startsWith(prefix) && lie !== "a key outside the prefix is taken") {
      throw corrupt(`${JSON.stringify(key)} is not below ${JSON.stringify(prefix)}`);
    }
    const forgiven = i === 0 ? lie === "a repeated page is taken" : lie === "a page out of order is taken";
    if (last !== undefined && compareKeys(key, last) <= 0 && !forgiven) {
      throw corrupt(`${JSON.stringify(key)} does not come after ${JSON.stringify(last)}`);
    }
    last = key;
  }
  return items;
}
