import assert from "node:assert/strict";
import {
  probe,
  putVerified,
  resolveUnknownPut,
  type ObjectStore,
  type PutOptions,
  type PutResult,
} from "@holdfast/object-store";
import type { FaultKind } from "../faults.js";
import type { ReferenceLie } from "../reference/lies.js";
import {
  ok,
  assertAbsent,
  assertFailed,
  assertOutcome,
  assertRejects,
  bytesOf,
  headOf,
  open,
  patterned,
  put,
  readText,
  rejection,
  seed,
  streamed,
  tooLate,
} from "../support.js";
import type { Case, CaseId, CasePlace } from "../types.js";

const late = tooLate();
const ours = { writeId: "pack-1", signal: open };

const underFault = (
  id: CaseId,
  clause: string,
  faults: readonly FaultKind[],
  client: ReferenceLie,
  run: Case["run"],
): Case => ({
  id,
  clause,
  faults,
  lie: { says: client, client },
  run,
});

/** One put while a fault strikes; the fault must have struck. */
async function struckPut(
  { store, inject }: CasePlace,
  kind: FaultKind,
  mode: PutOptions["mode"] = "create",
  o: { key?: string; text?: string; times?: number } = {},
): Promise<PutResult> {
  const fault = inject({ on: "put", kind, times: o.times ?? 1 });
  const result = await put(store, o.key ?? "k", o.text ?? "ours", mode);
  ok(fault.count() > 0, "the fault did not strike");
  return result;
}

/** Puts that end in a success must be there; all others that claim to have written nothing must not. */
async function saysTheTruth(raw: ObjectStore, result: PutResult, text = "ours"): Promise<void> {
  if (result.outcome === "created") {
    assert.equal(await readText(raw, "k"), text);
    assert.equal((await headOf(raw, "k"))?.etag, result.etag);
  }
  if (result.outcome === "failed") await assertAbsent(raw, "k");
  if (result.outcome === "exists") assert.equal((await headOf(raw, "k"))?.etag, result.info.etag);
}

/** A put that is aborted by a deadline once the fault has struck. */
async function abortedPut(place: CasePlace): Promise<PutResult> {
  const abort = new AbortController();
  const fault = place.inject({ on: "put", kind: "stalled" });
  const work = put(place.store, "k", "ours", "create", { signal: abort.signal });
  assert.equal((await place.ends(fault.struck)).status, "fulfilled");
  abort.abort(late);
  const ended = await place.ends(work);
  ok(ended.status === "fulfilled");
  return ended.value;
}

const connection: readonly Case[] = [
  underFault(
    "OS-300",
    "a create whose answer is lost is never `failed`",
    ["answer-lost"],
    "a lost create is failed",
    async (place) => {
      const result = await struckPut(place, "answer-lost");
      assertOutcome(result, "unknown", "created", "exists");
      assert.equal(await readText(place.raw, "k"), "ours");
    },
  ),
  underFault(
    "OS-301",
    "putVerified turns a create whose answer is lost into `created`",
    ["answer-lost"],
    "a lost create is retried and is another's",
    async ({ store, raw, inject }) => {
      const fault = inject({ on: "put", kind: "answer-lost" });
      const result = await putVerified(store, "k", bytesOf("ours"), ours);
      assert.equal(fault.count(), 1);
      assert.deepEqual(result, { outcome: "created", etag: (await headOf(raw, "k"))?.etag });
    },
  ),
  underFault(
    "OS-302",
    "an overwrite whose answer is lost is never `failed`",
    ["answer-lost"],
    "a lost overwrite is failed",
    async (place) => {
      await seed(place.raw, "k", "before");
      assertOutcome(await struckPut(place, "answer-lost", "overwrite"), "unknown", "created");
      assert.equal(await readText(place.raw, "k"), "ours");
    },
  ),
  underFault(
    "OS-303",
    "a replacement whose answer is lost is never `failed`, and no other's",
    ["answer-lost"],
    "a lost replacement is refused",
    async (place) => {
      if (!place.store.capabilities.ifMatch) return;
      const etag = await seed(place.raw, "k", "before");
      const result = await struckPut(place, "answer-lost", { ifMatch: etag });
      assertOutcome(result, "unknown", "created", "exists");
      assert.equal(await readText(place.raw, "k"), "ours");
      if (result.outcome === "exists") assert.equal(result.info.etag, (await headOf(place.raw, "k"))?.etag);
    },
  ),
  underFault(
    "OS-304",
    "a create that never arrived is not `created`, unless it was sent again",
    ["request-lost"],
    "a lost create is created",
    async (place) => {
      const result = await struckPut(place, "request-lost");
      assertOutcome(result, "unknown", "created", "failed");
      await saysTheTruth(place.raw, result);
    },
  ),
  underFault(
    "OS-305",
    "a key whose create never arrived is free",
    ["request-lost"],
    "a lost key is taken for good",
    async (place) => {
      await struckPut(place, "request-lost");
      const again = await putVerified(place.store, "k", bytesOf("ours"), ours);
      if ((await headOf(place.raw, "k"))?.metadata["holdfast-write-id"] === "pack-1")
        assert.equal(again.outcome, "created");
      else assert.equal(await readText(place.raw, "k"), "ours");
    },
  ),
  underFault(
    "OS-306",
    "a create that may land later is `unknown`, and is recognised when it has landed",
    ["late"],
    "a lost create with nothing there is failed",
    async ({ store, raw, inject }) => {
      const fault = inject({ on: "put", kind: "late" });
      const result = await putVerified(store, "k", bytesOf("ours"), ours);
      assert.equal(fault.count(), 1);
      ok(result.outcome === "unknown" || result.outcome === "created", result.outcome);
      await fault.release();
      const resolved = await resolveUnknownPut(store, "k", bytesOf("ours"), ours);
      assert.deepEqual(resolved, { outcome: "created", etag: (await headOf(raw, "k"))?.etag });
    },
  ),
  underFault(
    "OS-307",
    "a lost create, sent again or not, never replaces what is there",
    ["request-lost"],
    "a lost create is sent again as an overwrite",
    async (place) => {
      await seed(place.raw, "k", "another's");
      const result = await struckPut(place, "request-lost");
      assertOutcome(result, "unknown", "exists", "failed");
      assert.equal(await readText(place.raw, "k"), "another's");
    },
  ),
  underFault(
    "OS-308",
    "a put that is aborted while its answer stalls is `unknown`",
    ["stalled"],
    "a stalled put is failed",
    async (place) => {
      assert.equal((await abortedPut(place)).outcome, "unknown");
    },
  ),
  underFault(
    "OS-309",
    "a put that is aborted while its answer stalls ends with the deadline's own error",
    ["stalled"],
    "a stalled put waits",
    async (place) => {
      const result = await abortedPut(place);
      ok("error" in result && result.error === late);
    },
  ),
];

const busy: readonly Case[] = [
  underFault("OS-310", "a 409 on create is not `exists`", ["conflict"], "409 is exists", async (place) => {
    const result = await struckPut(place, "conflict");
    assertOutcome(result, "created", "failed", "unknown");
    await saysTheTruth(place.raw, result);
  }),
  underFault(
    "OS-311",
    "a 409 on create, again and again, is `failed` or `unknown` with UNAVAILABLE",
    ["conflict"],
    "409 is created",
    async (place) => {
      const result = await struckPut(place, "conflict", "create", { times: Infinity });
      assertOutcome(result, "failed", "unknown");
      ok("error" in result && "code" in result.error && result.error.code === "UNAVAILABLE");
      await assertAbsent(place.raw, "k");
    },
  ),
  underFault(
    "OS-312",
    "a 409 on a replacement does not mean that the object has changed",
    ["conflict"],
    "409 on ifMatch is exists",
    async (place) => {
      if (!place.store.capabilities.ifMatch) return;
      const etag = await seed(place.raw, "k", "before");
      const result = await struckPut(place, "conflict", { ifMatch: etag });
      assertOutcome(result, "created", "failed", "unknown");
      assert.equal(await readText(place.raw, "k"), result.outcome === "created" ? "ours" : "before");
    },
  ),
  underFault(
    "OS-313",
    "a 404 on ifMatch is PRECONDITION_FAILED",
    ["missing"],
    "404 on ifMatch is not found",
    async (place) => {
      if (!place.store.capabilities.ifMatch) return;
      assertFailed(await struckPut(place, "missing", { ifMatch: "x" }), "PRECONDITION_FAILED");
    },
  ),
  underFault(
    "OS-314",
    "a 404 on create is no failed condition",
    ["missing"],
    "404 is a failed condition",
    async (place) => {
      const result = await struckPut(place, "missing");
      ok("error" in result && !("code" in result.error && result.error.code === "PRECONDITION_FAILED"));
      await assertAbsent(place.raw, "k");
    },
  ),
  underFault(
    "OS-315",
    "a 412 with nothing there afterwards is not `exists`",
    ["precondition"],
    "412 is exists with nothing there",
    async (place) => {
      const result = await struckPut(place, "precondition");
      assertOutcome(result, "failed", "unknown", "created");
      await saysTheTruth(place.raw, result);
    },
  ),
  underFault(
    "OS-316",
    "a 412 is never `created` without a look",
    ["precondition", "forbidden"],
    "412 and no look is created",
    async (place) => {
      const blind = place.inject({ on: "head", kind: "forbidden", times: Infinity });
      const result = await struckPut(place, "precondition");
      assertOutcome(result, "failed", "unknown");
      ok(blind.count() >= 0);
    },
  ),
  underFault("OS-317", "a refusal is ACCESS_DENIED", ["forbidden"], "403 on put is unavailable", async (place) => {
    assertFailed(await struckPut(place, "forbidden", "create", { times: Infinity }), "ACCESS_DENIED");
    await assertAbsent(place.raw, "k");
  }),
  underFault(
    "OS-318",
    "a throttled put goes through, or is UNAVAILABLE",
    ["throttled"],
    "503 on put is denied",
    async (place) => {
      const result = await struckPut(place, "throttled");
      if (result.outcome !== "created")
        ok("error" in result && "code" in result.error && result.error.code === "UNAVAILABLE");
    },
  ),
  underFault(
    "OS-319",
    "a put that is throttled again and again is not `created`",
    ["throttled"],
    "503 on put is created",
    async (place) => {
      assertOutcome(await struckPut(place, "throttled", "create", { times: Infinity }), "failed", "unknown");
      await assertAbsent(place.raw, "k");
    },
  ),
  underFault(
    "OS-320",
    "a put that is sent again sends its body again, from its start",
    ["throttled"],
    "a retry sends nothing",
    async ({ store, raw, inject }) => {
      const fault = inject({ on: "put", kind: "throttled" });
      const content = patterned(1000);
      const body = streamed(1000, [content.subarray(0, 400), content.subarray(400)]);
      const result = await store.put("k", body, { mode: "create", signal: open });
      assert.equal(fault.count(), 1);
      assertOutcome(result, "created", "failed", "unknown");
      if (result.outcome === "created") ok(Buffer.from(content).equals((await raw.get("k", { signal: open })).bytes));
    },
  ),
  underFault(
    "OS-321",
    "a create that is sent again has its condition again",
    ["throttled"],
    "a retry forgets create",
    async (place) => {
      await seed(place.raw, "k", "another's");
      assertOutcome(await struckPut(place, "throttled"), "exists", "failed", "unknown");
      assert.equal(await readText(place.raw, "k"), "another's");
    },
  ),
  underFault(
    "OS-322",
    "a replacement that is sent again has its condition again",
    ["throttled"],
    "a retry forgets ifMatch",
    async (place) => {
      if (!place.store.capabilities.ifMatch) return;
      const etag = await seed(place.raw, "k", "before");
      await seed(place.raw, "k", "another's", { mode: "overwrite" });
      assertOutcome(await struckPut(place, "throttled", { ifMatch: etag }), "exists", "failed", "unknown");
      assert.equal(await readText(place.raw, "k"), "another's");
    },
  ),
  underFault(
    "OS-323",
    "a put that is done and then answered 500 is never `failed`",
    ["error-after"],
    "500 on put is failed",
    async (place) => {
      assertOutcome(await struckPut(place, "error-after"), "unknown", "created", "exists");
      assert.equal(await readText(place.raw, "k"), "ours");
    },
  ),
  underFault("OS-324", "an error in a 200 is no success", ["error-in-200"], "200 on put is created", async (place) => {
    const result = await struckPut(place, "error-in-200", "create", { times: Infinity });
    assertOutcome(result, "failed", "unknown");
    await assertAbsent(place.raw, "k");
  }),
  underFault(
    "OS-325",
    "a put whose checksum the store refuses is not `created`",
    ["bad-digest"],
    "400 on put is created",
    async (place) => {
      assertOutcome(await struckPut(place, "bad-digest", "create", { times: Infinity }), "failed", "unknown");
      await assertAbsent(place.raw, "k");
    },
  ),
];

const conditions: readonly Case[] = [
  underFault(
    "OS-326",
    "an unquoted etag in the answer to a put is the whole etag",
    ["etag-unquoted"],
    "an etag of a put loses two letters",
    async (place) => {
      const result = await struckPut(place, "etag-unquoted", "create", { times: Infinity });
      assert.equal(result.outcome, "created");
      assert.equal(result.etag, (await headOf(place.raw, "k"))?.etag);
    },
  ),
  underFault(
    "OS-327",
    "a put that is answered without an etag is not `created` with none",
    ["etag-missing"],
    "no etag is created",
    async (place) => {
      const result = await struckPut(place, "etag-missing", "create", { times: Infinity });
      if (result.outcome === "created") assert.equal(result.etag, (await headOf(place.raw, "k"))?.etag);
      else assertOutcome(result, "unknown", "exists");
    },
  ),
  underFault(
    "OS-328",
    "a server that ignores `create` is found by probe",
    ["condition-ignored"],
    "create looks first",
    async ({ store, inject }) => {
      if (!store.capabilities.create) return;
      const fault = inject({ on: "put", kind: "condition-ignored", times: Infinity });
      const error = await rejection(probe(store, { prefix: "p/", signal: open }));
      ok(error instanceof Error && "clause" in error && error.clause === "create", String(error));
      ok(fault.count() > 0);
    },
  ),
  underFault(
    "OS-329",
    "a server that ignores `ifMatch` is found by probe",
    ["condition-ignored"],
    "ifMatch looks first",
    async ({ store, inject }) => {
      if (!store.capabilities.ifMatch || !store.capabilities.create) return;
      // The two creates of the probe go well.
      const fault = inject({ on: "put", kind: "condition-ignored", after: 2, times: Infinity });
      await assertRejects(probe(store, { prefix: "p/", signal: open }), "CONTRACT_BROKEN");
      ok(fault.count() > 0);
    },
  ),
];

/** Puts on a wire that breaks. */
export const faultPutCases: readonly Case[] = [...connection, ...busy, ...conditions];
