import assert from "node:assert/strict";
import { probe } from "@holdfast/object-store";
import { assertOutcome, assertRejects, headOf, ok, open, rejection } from "../support.js";
import type { Case } from "../types.js";
import { putUnderFault, struckPut } from "./fault-put-words.js";

/** Puts whose condition is ignored, or whose etag comes in a wrong form. */
export const faultConditionCases: readonly Case[] = [
  putUnderFault(
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
  putUnderFault(
    "OS-327",
    "a put that is answered without an etag is not `created` with none",
    ["etag-missing"],
    "no etag is created",
    async (place) => {
      const result = await struckPut(place, "etag-missing", "create", { times: Infinity });
      if (result.outcome === "created") assert.equal(result.etag, (await headOf(place.raw, "k"))?.etag);
      else assertOutcome(result, "unknown");
    },
  ),
  putUnderFault(
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
  putUnderFault(
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
