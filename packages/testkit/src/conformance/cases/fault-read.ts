import assert from "node:assert/strict";
import { getExactly, type ByteRange } from "@holdfast/object-store";
import type { Fault, FaultKind, Operation } from "../faults.js";
import type { ReferenceLie } from "../reference/lies.js";
import { ok, assertRejects, assertRightOr, headOf, open, remove, seed, textOf, tooLate } from "../support.js";
import type { Case, CaseId, CasePlace } from "../types.js";

const late = tooLate();
const content = "0123456789abcdef";
const middle: ByteRange = { offset: 4, length: 6 };

/** A case whose fault must have struck when `run` is over. */
const underFault = (
  id: CaseId,
  clause: string,
  fault: Fault,
  client: ReferenceLie,
  run: (place: CasePlace) => Promise<void>,
): Case => ({
  id,
  clause,
  faults: [fault.kind],
  lie: { says: client, client },
  async run(place) {
    await seed(place.raw, "k", content);
    const struck = place.inject(fault);
    await run(place);
    ok(struck.count() > 0, "the fault did not strike");
  },
});

const always = (on: Operation, kind: FaultKind): Fault => ({ on, kind, times: Infinity });

/** The right bytes and info, or one of these codes; never anything else. */
const rightOr =
  (range: ByteRange | undefined, ...codes: string[]) =>
  async ({ store }: CasePlace): Promise<void> => {
    const expected = range === undefined ? content : "suffix" in range ? content.slice(-range.suffix) : "456789";
    const work = store.get("k", { signal: open, ...(range === undefined ? {} : { range }) });
    await assertRightOr(
      work,
      ({ bytes, info }) => {
        assert.equal(textOf(bytes), expected);
        assert.equal(info.size, content.length);
      },
      ...codes,
    );
  };

const headRightOr =
  (...codes: string[]) =>
  async ({ store }: CasePlace): Promise<void> =>
    assertRightOr(headOf(store, "k"), (info) => assert.equal(info?.size, content.length), ...codes);

/** A call that a deadline aborts when the fault has struck must end with the deadline's error. */
const endsAborted = (id: CaseId, on: Operation, kind: FaultKind, client: ReferenceLie): Case => ({
  id,
  clause: `a ${on} whose ${kind === "stalled" ? "answer" : "body"} stalls ends with the deadline's own error`,
  faults: [kind],
  lie: { says: client, client },
  async run({ store, raw, inject, ends }) {
    await seed(raw, "k", content);
    const abort = new AbortController();
    const { signal } = abort;
    const fault = inject({ on, kind, times: Infinity });
    const list = async (): Promise<void> => {
      for await (const info of store.list({ prefix: "", signal })) assert.fail(info.key);
    };
    const calls: { readonly [O in Operation]?: () => Promise<unknown> } = {
      get: () => store.get("k", { signal }),
      head: () => store.head("k", { signal }),
      delete: () => store.delete("k", { signal }),
      list,
    };
    const work = calls[on]?.() ?? Promise.resolve();
    work.catch(() => undefined);
    assert.equal((await ends(fault.struck)).status, "fulfilled");
    abort.abort(late);
    const ended = await ends(work);
    ok(ended.status === "rejected" && ended.reason === late);
  },
});

const heads: readonly Case[] = [
  underFault(
    "OS-330",
    "a head that is refused is ACCESS_DENIED, not null",
    always("head", "forbidden"),
    "403 on head is null",
    ({ store }) => assertRejects(headOf(store, "k"), "ACCESS_DENIED"),
  ),
  underFault(
    "OS-331",
    "a head that is throttled goes through, or is UNAVAILABLE",
    { on: "head", kind: "throttled" },
    "503 on head is null",
    headRightOr("UNAVAILABLE"),
  ),
  underFault(
    "OS-332",
    "a head whose connection is reset goes through, or is UNAVAILABLE",
    { on: "head", kind: "request-lost" },
    "a reset head is null",
    headRightOr("UNAVAILABLE"),
  ),
  underFault(
    "OS-333",
    "a head that is answered 500 goes through, or is UNAVAILABLE",
    { on: "head", kind: "error-after" },
    "500 on head is null",
    headRightOr("UNAVAILABLE"),
  ),
  underFault(
    "OS-334",
    "a head without a size is never of 0 bytes",
    always("head", "size-missing"),
    "no size in head is 0",
    headRightOr("CORRUPT", "UNAVAILABLE"),
  ),
  underFault(
    "OS-335",
    "an unquoted etag in the answer to a head is the whole etag",
    always("head", "etag-unquoted"),
    "an etag of head loses two letters",
    async ({ store, raw }) => {
      const etag = (await raw.get("k", { signal: open })).info.etag;
      assert.equal((await headOf(store, "k"))?.etag, etag);
    },
  ),
  endsAborted("OS-336", "head", "stalled", "a stalled head waits"),
];

const ranges: readonly Case[] = [
  underFault(
    "OS-337",
    "a range that comes a byte short is CORRUPT",
    always("get", "truncated"),
    "a short range is taken",
    rightOr(middle, "CORRUPT", "UNAVAILABLE"),
  ),
  underFault(
    "OS-338",
    "an object that comes a byte short is CORRUPT",
    always("get", "truncated"),
    "a short object is taken",
    rightOr(undefined, "CORRUPT", "UNAVAILABLE"),
  ),
  underFault(
    "OS-339",
    "another range than the one asked for is CORRUPT",
    always("get", "shifted"),
    "another range is taken",
    rightOr(middle, "CORRUPT"),
  ),
  underFault(
    "OS-340",
    "a range with a byte too many is CORRUPT",
    always("get", "oversized"),
    "a long range is taken",
    rightOr(middle, "CORRUPT", "UNAVAILABLE"),
  ),
  underFault(
    "OS-341",
    "an object with a byte too many is CORRUPT",
    always("get", "oversized"),
    "a long object is taken",
    rightOr(undefined, "CORRUPT", "UNAVAILABLE"),
  ),
  underFault(
    "OS-342",
    "the whole object for a range is CORRUPT, or cut",
    always("get", "range-ignored"),
    "all is taken for a range",
    rightOr(middle, "CORRUPT"),
  ),
  underFault(
    "OS-343",
    "the whole object for a suffix is CORRUPT, or cut",
    always("get", "range-ignored"),
    "all is taken for a suffix",
    rightOr({ suffix: 3 }, "CORRUPT"),
  ),
  underFault(
    "OS-344",
    "a range that was decompressed on the way is CORRUPT",
    always("get", "gzip-decoded"),
    "a decoded range is taken",
    rightOr(middle, "CORRUPT", "UNAVAILABLE"),
  ),
  underFault(
    "OS-345",
    "an object that was decompressed on the way is CORRUPT",
    always("get", "gzip-decoded"),
    "a decoded object is taken",
    rightOr(undefined, "CORRUPT", "UNAVAILABLE"),
  ),
  underFault(
    "OS-346",
    "bytes that do not fit their checksum are CORRUPT",
    always("get", "wrong-checksum"),
    "no checksum is looked at",
    ({ store }) => assertRejects(store.get("k", { signal: open }), "CORRUPT", "UNAVAILABLE"),
  ),
  underFault(
    "OS-347",
    "a body that breaks off is read again, or UNAVAILABLE",
    { on: "get", kind: "body-cut" },
    "a cut body is whole",
    rightOr(undefined, "UNAVAILABLE", "CORRUPT"),
  ),
  underFault(
    "OS-348",
    "a get without a size is never of 0 bytes",
    always("get", "size-missing"),
    "no size in get is 0",
    rightOr(middle, "CORRUPT", "UNAVAILABLE"),
  ),
  underFault(
    "OS-349",
    "getExactly never gives other bytes, whatever range comes",
    always("get", "shifted"),
    "another range is taken",
    async ({ store }) => {
      await assertRightOr(
        getExactly(store, "k", { offset: 10, length: 5 }, { signal: open }),
        (bytes) => assert.equal(textOf(bytes), "abcde"),
        "CORRUPT",
      );
    },
  ),
];

const gets: readonly Case[] = [
  underFault(
    "OS-350",
    "a get that is throttled goes through, or is UNAVAILABLE",
    { on: "get", kind: "throttled" },
    "503 on get is not found",
    rightOr(undefined, "UNAVAILABLE"),
  ),
  underFault(
    "OS-351",
    "a get that is refused is ACCESS_DENIED",
    always("get", "forbidden"),
    "403 on get is not found",
    ({ store }) => assertRejects(store.get("k", { signal: open }), "ACCESS_DENIED"),
  ),
  underFault(
    "OS-352",
    "a get whose connection is reset goes through, or is UNAVAILABLE",
    { on: "get", kind: "request-lost" },
    "a reset get is not found",
    rightOr(undefined, "UNAVAILABLE"),
  ),
  underFault(
    "OS-353",
    "an error in a 200 is not the object",
    always("get", "error-in-200"),
    "200 on get is the object",
    rightOr(undefined, "UNAVAILABLE", "CORRUPT"),
  ),
  underFault(
    "OS-354",
    "a get that is answered 500 goes through, or is UNAVAILABLE",
    { on: "get", kind: "error-after" },
    "500 on get is nothing",
    rightOr(undefined, "UNAVAILABLE"),
  ),
  underFault(
    "OS-355",
    "a server that ignores the condition of a get is seen through",
    always("get", "condition-ignored"),
    "a get trusts the condition",
    async ({ store, raw }) => {
      const stale = (await headOf(raw, "k"))?.etag ?? "";
      await seed(raw, "k", "another content", { mode: "overwrite" });
      await assertRejects(store.get("k", { ifMatch: stale, signal: open }), "PRECONDITION_FAILED", "CORRUPT");
    },
  ),
  underFault(
    "OS-356",
    "an unquoted etag in the answer to a get is the whole etag",
    always("get", "etag-unquoted"),
    "an etag of get loses two letters",
    async ({ store, raw }) => {
      assert.equal((await store.get("k", { signal: open })).info.etag, (await headOf(raw, "k"))?.etag);
    },
  ),
  endsAborted("OS-357", "get", "stalled", "a stalled get waits"),
  endsAborted("OS-358", "get", "body-stalled", "a stalled body waits"),
];

const gone = async ({ store, raw }: CasePlace, times: number): Promise<void> => {
  const work = remove(store, "k");
  if (times === 1) await assertRightOr(work, () => undefined, "UNAVAILABLE");
  else await assertRejects(work, "UNAVAILABLE");
  assert.equal((await headOf(raw, "k")) !== null, times !== 1);
};

const deletes: readonly Case[] = [
  underFault(
    "OS-360",
    "a delete whose answer is lost is success, or UNAVAILABLE",
    { on: "delete", kind: "answer-lost" },
    "a lost delete is not found",
    (place) => gone(place, 1),
  ),
  underFault(
    "OS-361",
    "a delete that is answered 404 is success",
    always("delete", "missing"),
    "404 on delete is an error",
    ({ store }) => remove(store, "k"),
  ),
  underFault(
    "OS-362",
    "an error in a 200 is no delete",
    always("delete", "error-in-200"),
    "200 on delete is done",
    (place) => gone(place, Infinity),
  ),
  underFault(
    "OS-363",
    "a delete that is throttled again and again is UNAVAILABLE",
    always("delete", "throttled"),
    "503 on delete is done",
    (place) => gone(place, Infinity),
  ),
  underFault(
    "OS-364",
    "a delete that is refused is ACCESS_DENIED",
    always("delete", "forbidden"),
    "403 on delete is done",
    ({ store }) => assertRejects(remove(store, "k"), "ACCESS_DENIED"),
  ),
  endsAborted("OS-365", "delete", "stalled", "a stalled delete waits"),
];

/** Reads and deletes on a wire that breaks. */
export const faultReadCases: readonly Case[] = [...heads, ...ranges, ...gets, ...deletes];
export { endsAborted };
