/** Words for the cases of puts under faults. */
import assert from "node:assert/strict";
import type { ObjectStore, PutOptions, PutResult } from "@holdfast/object-store";
import type { FaultKind } from "../faults.js";
import type { ReferenceLie } from "../reference/lies.js";
import { assertAbsent, headOf, ok, put, readText } from "../support.js";
import type { Case, CaseId, CasePlace } from "../types.js";

/** A case whose lie is a mistake of the suite's own client. */
export const putUnderFault = (
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
export async function struckPut(
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
export async function saysTheTruth(raw: ObjectStore, result: PutResult, text = "ours"): Promise<void> {
  if (result.outcome === "created") {
    assert.equal(await readText(raw, "k"), text);
    assert.equal((await headOf(raw, "k"))?.etag, result.etag);
  }
  if (result.outcome === "failed") await assertAbsent(raw, "k");
  if (result.outcome === "exists") assert.equal((await headOf(raw, "k"))?.etag, result.info.etag);
}
