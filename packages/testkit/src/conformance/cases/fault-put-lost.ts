import assert from "node:assert/strict";
import { putVerified, resolveUnknownPut, type PutResult } from "@holdfast/object-store";
import { assertOutcome, bytesOf, headOf, ok, open, put, readText, seed, tooLate } from "../support.js";
import type { Case, CasePlace } from "../types.js";
import { putUnderFault, saysTheTruth, struckPut } from "./fault-put-words.js";

const late = tooLate();
const ours = { writeId: "pack-1", signal: open };

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

/** Puts whose request or answer is lost, late, or never comes. */
export const lostPutCases: readonly Case[] = [
  putUnderFault(
    "OS-300",
    "a create whose answer is lost is never `failed`",
    ["answer-lost"],
    "a lost create is failed",
    async (place) => {
      // Not `exists` either, which says that this put has written nothing.
      assertOutcome(await struckPut(place, "answer-lost"), "unknown", "created");
      assert.equal(await readText(place.raw, "k"), "ours");
    },
  ),
  putUnderFault(
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
  putUnderFault(
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
  putUnderFault(
    "OS-303",
    "a replacement whose answer is lost is never `failed`, and no other's",
    ["answer-lost"],
    "a lost replacement is refused",
    async (place) => {
      if (!place.store.capabilities.ifMatch) return;
      const etag = await seed(place.raw, "k", "before");
      assertOutcome(await struckPut(place, "answer-lost", { ifMatch: etag }), "unknown", "created");
      assert.equal(await readText(place.raw, "k"), "ours");
    },
  ),
  putUnderFault(
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
  putUnderFault(
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
  putUnderFault(
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
  putUnderFault(
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
  putUnderFault(
    "OS-308",
    "a put that is aborted while its answer stalls is `unknown`",
    ["stalled"],
    "a stalled put is failed",
    async (place) => {
      assert.equal((await abortedPut(place)).outcome, "unknown");
    },
  ),
  putUnderFault(
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
