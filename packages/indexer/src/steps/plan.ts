import type { Context } from "../context.js";
import { readGuard } from "../guard.js";
import type { PackFailure } from "../indexer-types.js";
import type { PackRef } from "../pack-ref.js";
import { underLease } from "../store-access.js";

/** A pack that is visible and has no inventory row: its publisher stopped before it wrote one. */
export type UnlistedPack = { readonly pack: PackRef; readonly version: bigint };

/** The first third of a pass: what there is to do, as the catalog stood under one lease. */
export type Plan = {
  readonly requested: number;
  /** To be read and published. */
  readonly wanted: readonly PackRef[];
  /** Only their inventory rows are owed. */
  readonly unlisted: readonly UnlistedPack[];
  readonly skipped: number;
  readonly failures: readonly PackFailure[];
  /** The lease that the guard was read under, and how many commits its keeper had made: commit compares both. */
  readonly leaseId: string;
  readonly commits: number;
};

/** Plans a pass: duplicates collapse, packs that the catalog has are dropped. Takes the lease lock for one read. */
export async function plan(context: Context, packs: readonly PackRef[]): Promise<Plan> {
  const { unique, repeated, failures } = withoutDuplicates(packs, context.store.storeId);
  return underLease(context.keeper, async (stretch) => {
    const known = await readGuard(context.catalog, context.tables, unique);
    const { wanted, unlisted } = split(unique, known);
    return {
      requested: packs.length,
      wanted,
      unlisted,
      skipped: repeated + unique.length - wanted.length,
      failures,
      leaseId: stretch.leaseId,
      commits: context.keeper.commits,
    };
  });
}

/** Sorts packs by what the guard said of them: unknown ones are wanted, visible ones without inventory row unlisted. */
export function split(
  packs: readonly PackRef[],
  known: Awaited<ReturnType<typeof readGuard>>,
): { wanted: readonly PackRef[]; unlisted: readonly UnlistedPack[] } {
  const wanted: PackRef[] = [];
  const unlisted: UnlistedPack[] = [];
  for (const pack of packs) {
    const found = known.get(pack.key);
    if (found === undefined) wanted.push(pack);
    else if (!found.inventoried) unlisted.push({ pack, version: found.version });
  }
  return { wanted, unlisted };
}

/**
 * One reference per pack. References to one pack that say the same collapse; when they differ, nobody knows which is right
 * and each is a failure of its own. A reference into another store is a failure too: its bytes cannot be read here.
 */
export function withoutDuplicates(
  packs: readonly PackRef[],
  storeId: string,
): { unique: readonly PackRef[]; repeated: number; failures: readonly PackFailure[] } {
  const byId = new Map<string, PackRef[]>();
  const failures: PackFailure[] = [];
  for (const pack of packs) {
    if (pack.storeId === storeId) {
      const same = byId.get(pack.packId);
      if (same === undefined) byId.set(pack.packId, [pack]);
      else same.push(pack);
    } else {
      const message = `pack ${pack.packId} lies in store ${pack.storeId}, and this indexer reads ${storeId}`;
      failures.push({ pack, code: "PACK_MISMATCH", message, kind: "pack" });
    }
  }
  const unique: PackRef[] = [];
  let repeated = 0;
  for (const same of byId.values()) {
    const [first] = same;
    if (first === undefined) continue;
    if (same.every((pack) => sameReference(pack, first))) {
      unique.push(first);
      repeated += same.length - 1;
    } else {
      const message = `${String(same.length)} references name pack ${first.packId} and differ in key, size, checksum or count`;
      failures.push(...same.map((pack) => ({ pack, code: "PACK_CONFLICT" as const, message, kind: "pack" as const })));
    }
  }
  return { unique, repeated, failures };
}

function sameReference(a: PackRef, b: PackRef): boolean {
  return a.key === b.key && a.bytes === b.bytes && a.sha256 === b.sha256 && a.records === b.records;
}
