// The catalogs of tests: their schema, what goes into them, the lease they are kept under, and their statements.
import { defineCaptureSchema } from "@holdfast/pack-format";
import { payloadOf } from "./spool.js";

let made = 0;

/** A schema of its own for each test: so a catalog, a lease and a key prefix of its own. */
export function freshSchema() {
  return defineCaptureSchema({
    name: `notes_${process.pid}_${(made += 1)}`,
    version: 1,
    fields: { kind: "LowCardinality(String)", step: "UInt64" },
    orderBy: ["kind", "step"],
  });
}
export type NotesSchema = ReturnType<typeof freshSchema>;

/** Only a machine that hangs outlasts it: who needs its end skips to it on a {@link SkippingClock}. */
export const patientLease = { ttlMs: 600_000, publishTimeoutMs: 60_000 } as const;
/** A bound that is never met: what waits for it hangs. */
export const foreverMs = 24 * 3_600_000;

/** Statements of the catalog, as a proxy sees them. */
export const leaseRead = /^\s*SELECT[\s\S]*holdfast_publisher_lease/;
export const leaseInsert = /^\s*INSERT INTO \S*holdfast_publisher_lease/;
export const versionClaim = /^\s*INSERT INTO \S*_version_claim/;
export const manifestInsert = /^\s*INSERT INTO \S*_snapshot_manifest/;

export const once = (ids: readonly string[]) => new Map(ids.map((id) => [id, 1]));
export const numbered = (count: number) => Array.from({ length: count }, (_, i) => `r-${i}`);

export function note(captureId: string, bytes = 500) {
  return {
    captureId,
    scope: { tenant: "acme", session: "run-1" },
    fields: { kind: "test", step: 7n },
    payload: payloadOf(captureId, bytes),
  };
}
