import type { CatalogClient } from "./catalog-client.js";
import type { CatalogTables } from "./catalog/tables.js";
import type { PackRef } from "./pack-ref.js";

/** What the catalog knows of a pack. `version`: of its first visible publish, or of its inventory row. */
export type KnownPack = { readonly inventoried: boolean; readonly version: bigint };

type GuardRow = { readonly object_key: string; readonly inventoried: number; readonly version: string };

/**
 * SELECT of the asked packs that the catalog has: by inventory row, or by a visible publish whose inventory row was never
 * written (its publisher stopped in between, or its last answer was lost). Without the second half such a pack would be
 * published once more.
 */
export function guardStatement(tables: CatalogTables): string {
  const asked = `store_id = {store_id:String} AND pack_id IN {packs:Array(UUID)}`;
  return (
    `SELECT object_key, max(hf_inventoried) AS inventoried, min(index_version) AS version FROM (` +
    `SELECT object_key, 1 AS hf_inventoried, index_version FROM ${tables.inventory} ` +
    `WHERE store_id = {store_id:String} AND object_key IN {keys:Array(String)} ` +
    `UNION ALL ` +
    `SELECT object_key, 0 AS hf_inventoried, index_version FROM ${tables.manifest} WHERE ${asked} ` +
    `AND (index_version, publish_id) IN (SELECT index_version, publish_id FROM ${tables.watermark} ` +
    `WHERE index_version IN (SELECT index_version FROM ${tables.manifest} WHERE ${asked}))` +
    `) GROUP BY object_key`
  );
}

/** The replay guard: which of these packs (all of one store) are in the catalog, by key. A deciding read. */
export async function readGuard(
  catalog: CatalogClient,
  tables: CatalogTables,
  packs: readonly Pick<PackRef, "storeId" | "key" | "packId">[],
): Promise<ReadonlyMap<string, KnownPack>> {
  const [first] = packs;
  if (first === undefined) return new Map();
  const rows = await catalog.decide<GuardRow>(guardStatement(tables), {
    store_id: first.storeId,
    keys: packs.map((pack) => pack.key),
    packs: packs.map((pack) => pack.packId),
  });
  return new Map(
    rows.map((row) => [row.object_key, { inventoried: row.inventoried === 1, version: BigInt(row.version) }]),
  );
}
