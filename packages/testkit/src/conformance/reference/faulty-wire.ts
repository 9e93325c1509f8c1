import { collectBody } from "@holdfast/object-store";
import type { Fault, FaultInjector, FaultKind, Injected } from "../faults.js";
import { inPieces, type Wire, type WireAnswer, type WireRequest } from "./wire.js";

type Rule = Fault & { left: number; skip: number; strikes: number; struck(): void; release?: () => Promise<void> };
type Strike = (wire: Wire, request: WireRequest, rule: Rule) => Promise<WireAnswer>;
type Page = NonNullable<WireAnswer["page"]>;

const reset = (): Error => Object.assign(new Error("the connection was reset"), { code: "ECONNRESET" });
const forEver = (): Promise<never> => new Promise(() => undefined);
const answering =
  (status: number, error: string): Strike =>
  () =>
    Promise.resolve({ status, error });

/** Does the request, and changes its answer. */
const changing =
  (change: (answer: WireAnswer, request: WireRequest) => WireAnswer | Promise<WireAnswer>): Strike =>
  async (wire, request) => {
    const answer = await wire(request);
    return answer.status < 300 ? change(answer, request) : answer;
  };

const changingBody = (change: (bytes: Uint8Array) => Uint8Array, more: Partial<WireAnswer> = {}): Strike =>
  changing(async (answer) => ({ ...answer, ...more, body: inPieces(change(await bodyOf(answer))) }));

const changingPage = (change: (page: Page, request: WireRequest) => Partial<Page>): Strike =>
  changing((answer, request) =>
    answer.page === undefined ? answer : { ...answer, page: { ...answer.page, ...change(answer.page, request) } },
  );

function without<T extends object, K extends keyof T>(whole: T, ...names: readonly K[]): Omit<T, K> {
  const part = { ...whole };
  for (const name of names) Reflect.deleteProperty(part, name);
  return part;
}

const strikes: { readonly [K in FaultKind]: Strike } = {
  "request-lost": () => Promise.reject(reset()),
  "answer-lost": async (wire, request) => {
    await wire(request);
    throw reset();
  },
  late: (wire, request, rule) => {
    rule.release = async () => {
      await wire(request);
    };
    return Promise.reject(reset());
  },
  stalled: async (wire, request) => {
    await wire(request);
    return forEver();
  },
  "body-stalled": changing(async (answer) => ({ ...answer, body: inPieces(await bodyOf(answer), forEver) })),
  "body-cut": changing(async (answer) => {
    const cut = () => Promise.reject(reset());
    return { ...answer, body: inPieces(await bodyOf(answer), cut) };
  }),
  throttled: answering(503, "SlowDown"),
  conflict: answering(409, "ConditionalRequestConflict"),
  missing: answering(404, "NoSuchKey"),
  precondition: answering(412, "PreconditionFailed"),
  forbidden: answering(403, "AccessDenied"),
  "bad-digest": answering(400, "BadDigest"),
  "error-in-200": () => {
    const body = new TextEncoder().encode("<Error>");
    return Promise.resolve({ status: 200, error: "InternalError", length: body.length, body: inPieces(body) });
  },
  "error-after": async (wire, request) => {
    await wire(request);
    return { status: 500, error: "InternalError" };
  },
  "condition-ignored": (wire, request) => wire(without(request, "createOnly", "ifMatch")),
  "etag-unquoted": changing((answer) => {
    const bare = (etag: string) => etag.replaceAll('"', "");
    const { etag, page } = answer;
    const items = page?.items.map((item) => ({ ...item, etag: bare(item.etag) })) ?? [];
    return {
      ...answer,
      ...(etag === undefined ? {} : { etag: bare(etag) }),
      ...(page === undefined ? {} : { page: { ...page, items } }),
    };
  }),
  "etag-missing": changing((answer) => without(answer, "etag")),
  truncated: changingBody((bytes) => bytes.subarray(0, -1)),
  shifted: async (wire, request) => {
    const { range } = request;
    if (range === undefined || "suffix" in range) return wire(request);
    return wire({ ...request, range: { ...range, offset: range.offset + 1 } });
  },
  oversized: changingBody((bytes) => Uint8Array.of(...bytes, 0x21)),
  "range-ignored": (wire, request) => wire(without(request, "range")),
  "gzip-decoded": changingBody((bytes) => Uint8Array.of(...bytes, ...bytes), { encoding: "gzip" }),
  "wrong-checksum": changing((answer) => ({ ...answer, checksum: ((answer.checksum ?? 0) ^ 1) >>> 0 })),
  "size-missing": changing((answer) => without(answer, "size")),
  "page-repeats": async (wire, request) => {
    // The page before this one: the listing from its start, since these cases ask for the second page.
    const { token } = request;
    const answer = await wire(without(request, "token"));
    return token === undefined || answer.page === undefined ? answer : { ...answer, page: { ...answer.page, token } };
  },
  "page-drifts": changingPage(({ items }) => ({ items: items.toReversed() })),
  "page-skips": changingPage(({ items }) => ({ items: items.slice(1) })),
  "page-foreign": changingPage(({ items, count }) => {
    const foreign = { key: "zzz/foreign", size: 1, etag: '"foreign"', modifiedAtMs: 0 };
    return { items: [...items, foreign], count: count + 1 };
  }),
  "page-long": (wire, request) => wire({ ...request, pageSize: (request.pageSize ?? 3) + 2 }),
  "page-empty": changingPage((_, { token, startAfter }) => {
    return { items: [], count: 0, more: true, token: token ?? `after:${startAfter ?? ""}` };
  }),
  "token-lost": changing((answer) =>
    answer.page === undefined ? answer : { ...answer, page: without(answer.page, "token") },
  ),
  "token-refused": answering(400, "InvalidToken"),
  "token-stuck": async (wire, request) => {
    const answer = await wire(without(request, "token"));
    const { page } = answer;
    return page === undefined ? answer : { ...answer, page: { ...page, more: true, token: "after:" } };
  },
};

const { signal } = new AbortController();

async function bodyOf(answer: WireAnswer): Promise<Uint8Array> {
  const { body, length = 0 } = answer;
  return body === undefined ? new Uint8Array(0) : collectBody({ size: length, open: () => body }, { signal });
}

/** A wire that can be broken. */
export function faultyWire(wire: Wire): { readonly wire: Wire; readonly faults: FaultInjector } {
  const rules: Rule[] = [];
  const send: Wire = async (request) => {
    const fits = rules.filter((rule) => rule.on === request.op && rule.left > 0);
    const due = fits.find((rule) => rule.skip === 0);
    for (const rule of fits) if (rule.skip > 0) rule.skip--;
    if (due === undefined) return wire(request);
    due.left--;
    due.strikes++;
    const answer = strikes[due.kind](wire, request, due);
    // Told a turn later: a request that stalls has by then been done, as far as it is done at all.
    setImmediate(() => due.struck());
    return answer;
  };
  const inject = (fault: Fault): Injected => {
    let struck = (): void => undefined;
    const first = new Promise<void>((resolve) => (struck = resolve));
    const rule: Rule = { ...fault, left: fault.times ?? 1, skip: fault.after ?? 0, strikes: 0, struck: () => struck() };
    rules.push(rule);
    return { struck: first, count: () => rule.strikes, release: async () => rule.release?.() };
  };
  return { wire: send, faults: { kinds: new Set(Object.keys(strikes) as FaultKind[]), inject } };
}
