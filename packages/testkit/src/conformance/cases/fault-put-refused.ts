import assert from "node:assert/strict";
import {
  assertAbsent,
  assertFailed,
  assertOutcome,
  ok,
  open,
  patterned,
  readText,
  seed,
  streamed,
} from "../support.js";
import type { Case } from "../types.js";
import { putUnderFault, saysTheTruth, struckPut } from "./fault-put-words.js";

/** Puts that are answered with something else than a success. */
export const refusedPutCases: readonly Case[] = [
  putUnderFault("OS-310", "a 409 on create is not `exists`", ["conflict"], "409 is exists", async (place) => {
    const result = await struckPut(place, "conflict");
    assertOutcome(result, "created", "failed", "unknown");
    await saysTheTruth(place.raw, result);
  }),
  putUnderFault(
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
  putUnderFault(
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
  putUnderFault(
    "OS-313",
    "a 404 on ifMatch is PRECONDITION_FAILED",
    ["missing"],
    "404 on ifMatch is not found",
    async (place) => {
      if (!place.store.capabilities.ifMatch) return;
      assertFailed(await struckPut(place, "missing", { ifMatch: "x" }), "PRECONDITION_FAILED");
    },
  ),
  putUnderFault(
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
  putUnderFault(
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
  putUnderFault(
    "OS-316",
    "a 412 is never `created` without a look",
    ["precondition", "forbidden"],
    "412 and no look is created",
    async (place) => {
      place.inject({ on: "head", kind: "forbidden", times: Infinity });
      assertOutcome(await struckPut(place, "precondition"), "failed", "unknown");
    },
  ),
  putUnderFault("OS-317", "a refusal is ACCESS_DENIED", ["forbidden"], "403 on put is unavailable", async (place) => {
    assertFailed(await struckPut(place, "forbidden", "create", { times: Infinity }), "ACCESS_DENIED");
    await assertAbsent(place.raw, "k");
  }),
  putUnderFault(
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
  putUnderFault(
    "OS-319",
    "a put that is throttled again and again is not `created`",
    ["throttled"],
    "503 on put is created",
    async (place) => {
      assertOutcome(await struckPut(place, "throttled", "create", { times: Infinity }), "failed", "unknown");
      await assertAbsent(place.raw, "k");
    },
  ),
  putUnderFault(
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
  putUnderFault(
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
  putUnderFault(
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
  putUnderFault(
    "OS-323",
    "a put that is done and then answered 500 is never `failed`",
    ["error-after"],
    "500 on put is failed",
    async (place) => {
      assertOutcome(await struckPut(place, "error-after"), "unknown", "created");
      assert.equal(await readText(place.raw, "k"), "ours");
    },
  ),
  putUnderFault(
    "OS-324",
    "an error in a 200 is no success",
    ["error-in-200"],
    "200 on put is created",
    async (place) => {
      const result = await struckPut(place, "error-in-200", "create", { times: Infinity });
      assertOutcome(result, "failed", "unknown");
      await assertAbsent(place.raw, "k");
    },
  ),
  putUnderFault(
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
