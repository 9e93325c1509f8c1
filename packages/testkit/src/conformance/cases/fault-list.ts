import assert from "node:assert/strict";
import type { Fault, FaultKind } from "../faults.js";
import type { ReferenceLie } from "../reference/lies.js";
import { ok, assertRejects, assertRightOr, headOf, infosOf, keysOf, seed } from "../support.js";
import type { Case, CaseId, CasePlace } from "../types.js";
import { endsAborted } from "./fault-read.js";

const keys = Array.from({ length: 8 }, (_, i) => `k/${i}`);

/** A listing of eight objects in pages of three while a fault strikes: all of them in order, or one of these codes, never less. */
const listing = (
  id: CaseId,
  clause: string,
  fault: Omit<Fault, "on">,
  client: ReferenceLie,
  codes: readonly string[],
  run = (place: CasePlace): Promise<void> =>
    assertRightOr(keysOf(place.store, { prefix: "k/" }), (seen) => assert.deepEqual(seen, keys), ...codes),
): Case => ({
  id,
  clause,
  faults: [fault.kind],
  lie: { says: client, client },
  async run(place) {
    for (const key of keys) await seed(place.raw, key, "v");
    const struck = place.inject({ ...fault, on: "list" });
    await run(place);
    ok(struck.count() > 0, "the fault did not strike");
  },
});
const onSecondPage = (kind: FaultKind): Omit<Fault, "on"> => ({ kind, after: 1 });

/** Listings on a wire that breaks, and a server that pages badly. */
export const faultListCases: readonly Case[] = [
  listing("OS-370", "a page that comes again is noticed", onSecondPage("page-repeats"), "a repeated page is taken", [
    "CORRUPT",
  ]),
  listing("OS-371", "a page out of order is noticed", onSecondPage("page-drifts"), "a page out of order is taken", [
    "CORRUPT",
  ]),
  listing(
    "OS-372",
    "a page that lacks an entry it counts is noticed",
    onSecondPage("page-skips"),
    "the count of a page is not looked at",
    ["CORRUPT"],
  ),
  listing(
    "OS-373",
    "a key outside the prefix is noticed, or left out",
    { kind: "page-foreign", after: 2 },
    "a key outside the prefix is taken",
    ["CORRUPT"],
  ),
  listing(
    "OS-374",
    "a page of more than was asked for does not break the limit",
    { kind: "page-long", times: Infinity },
    "a long page is taken",
    ["CORRUPT"],
    ({ store }) =>
      assertRightOr(
        keysOf(store, { prefix: "k/", limit: 2 }),
        (seen) => assert.deepEqual(seen, keys.slice(0, 2)),
        "CORRUPT",
      ),
  ),
  listing(
    "OS-375",
    "an empty page with more to come is not the end",
    onSecondPage("page-empty"),
    "an empty page is the end",
    ["CORRUPT", "UNAVAILABLE"],
  ),
  listing("OS-376", "more to come and no token is not the end", onSecondPage("token-lost"), "no token is the end", [
    "CORRUPT",
    "UNAVAILABLE",
  ]),
  listing(
    "OS-377",
    "a token that is refused is not the end",
    onSecondPage("token-refused"),
    "a refused token is the end",
    ["CORRUPT", "UNAVAILABLE"],
  ),
  listing(
    "OS-378",
    "a listing whose pages stay the same ends",
    { kind: "token-stuck", times: Infinity },
    "a stuck listing goes on",
    ["CORRUPT", "UNAVAILABLE"],
  ),
  listing(
    "OS-379",
    "a listing that is throttled half-way goes on, or is UNAVAILABLE",
    onSecondPage("throttled"),
    "503 on list is the end",
    ["UNAVAILABLE"],
  ),
  listing(
    "OS-380",
    "a listing that is reset half-way goes on, or is UNAVAILABLE",
    onSecondPage("request-lost"),
    "a reset list is the end",
    ["UNAVAILABLE"],
  ),
  listing(
    "OS-381",
    "a listing that is refused half-way is ACCESS_DENIED",
    { kind: "forbidden", after: 1, times: Infinity },
    "403 on list is the end",
    [],
    ({ store }) => assertRejects(keysOf(store, { prefix: "k/" }), "ACCESS_DENIED"),
  ),
  listing(
    "OS-382",
    "an error in a 200 is not the end of a listing",
    onSecondPage("error-in-200"),
    "200 on list is the end",
    ["UNAVAILABLE", "CORRUPT"],
  ),
  listing(
    "OS-383",
    "a listing that is answered 500 half-way goes on, or is UNAVAILABLE",
    onSecondPage("error-after"),
    "500 on list is the end",
    ["UNAVAILABLE"],
  ),
  listing(
    "OS-384",
    "unquoted etags in a listing are whole etags",
    { kind: "etag-unquoted", times: Infinity },
    "an etag of a listing loses two letters",
    [],
    async ({ store, raw }) => {
      for (const { key, etag } of await infosOf(store, { prefix: "k/" }))
        assert.equal(etag, (await headOf(raw, key))?.etag);
    },
  ),
  endsAborted("OS-385", "list", "stalled", "a stalled list waits"),
];
