import type { Clock } from "@holdfast/deadline-http";
import { CatalogError } from "../catalog-error.js";
import type { CatalogClient } from "../catalog-client.js";
import { newest } from "../catalog/membership.js";
import type { CatalogTables } from "../catalog/tables.js";
import { uuidFrom, wholeUpTo, type Random } from "../prng.js";

export type Allocator = {
  readonly catalog: CatalogClient;
  readonly tables: CatalogTables;
  readonly clock: Clock;
  readonly random: Random;
  readonly attempts: number;
};

/** SELECT of the greatest version that was ever claimed or published. */
export function floorStatement(tables: CatalogTables): string {
  const claimed = newest(tables.versionClaim, "version");
  return `SELECT greatest(${claimed}, ${newest(tables.watermark, "index_version")}) AS floor`;
}

export function claimantsStatement(tables: CatalogTables): string {
  return `SELECT DISTINCT toString(claim_id) AS claim_id FROM ${tables.versionClaim} WHERE version = {version:UInt64}`;
}

/**
 * Claims a version above everything claimed or published, and returns it only when the claim stands alone.
 *
 * Safety: every claimant writes before it reads. Of two claims at one version the later read sees both rows, and the
 * earlier read may have seen only its own; so at most one claimant returns a version. A claim that lands late can only
 * make others go higher. A claim that is not returned stays behind as a row that nothing refers to.
 *
 * Throws ALLOCATION_FAILED after `attempts` contested versions; errors of requests as they are.
 */
export async function allocateVersion(o: Allocator): Promise<bigint> {
  for (let attempt = 0; attempt < o.attempts; attempt += 1) {
    const [row] = await o.catalog.decide<{ floor: string }>(floorStatement(o.tables));
    // Claimants that met once spread out, so that they do not meet again.
    const spread = attempt === 0 ? 0 : wholeUpTo(8 * attempt, o.random);
    const candidate = BigInt(row?.floor ?? 0) + 1n + BigInt(spread);
    const claimId = uuidFrom(o.random);
    await o.catalog.insert(
      o.tables.versionClaim,
      ["version", "claim_id", "claimed_at_ns"],
      [[candidate.toString(), claimId, wallNs(o.clock)]],
    );
    const claimants = await o.catalog.decide<{ claim_id: string }>(claimantsStatement(o.tables), {
      version: candidate.toString(),
    });
    if (claimants.length === 1 && claimants[0]?.claim_id === claimId) return candidate;
  }
  throw new CatalogError(
    "ALLOCATION_FAILED",
    `no version could be claimed alone in ${String(o.attempts)} attempts: other publishers claim at the same moment; ` +
      `one catalog is meant to have one publisher at a time, try again`,
  );
}

/** The wall clock in nanoseconds, as text: informational columns only. */
export function wallNs(clock: Clock): string {
  return (BigInt(Math.trunc(clock.wallMs())) * 1_000_000n).toString();
}
