import type { CatalogTables } from "./tables.js";

/** The statement parameter that pins a snapshot. */
export const snapshotParameter = "hf_snapshot";

/**
 * SELECT of the packs that are members of the snapshot `{hf_snapshot:UInt64}`: (store_id, pack_id, first_version).
 *
 * A manifest row counts only when its (index_version, publish_id) pairs with a watermark row: that row is what makes a
 * publish visible, so a manifest left behind by a stopped or superseded publisher admits nothing. `first_version` is the
 * version of the first visible publish that added the pack; it never changes once a snapshot has seen it, whatever is
 * published again later, and so it is what ranks packs that hold the same capture.
 */
export function membersStatement(tables: CatalogTables): string {
  const pin = `{${snapshotParameter}:UInt64}`;
  return (
    `SELECT store_id, pack_id, minIf(index_version, change > 0) AS first_version FROM ${tables.manifest} ` +
    `WHERE index_version <= ${pin} AND (index_version, publish_id) IN ` +
    `(SELECT index_version, publish_id FROM ${tables.watermark} WHERE index_version <= ${pin}) ` +
    `GROUP BY store_id, pack_id HAVING argMax(change, index_version) > 0`
  );
}

/** SELECT of the newest visible version as `head` (0 in an empty catalog). */
export function headStatement(tables: CatalogTables): string {
  return `SELECT ${newest(tables.watermark, "index_version")} AS head`;
}

/**
 * Expression: the greatest value of the column that the table is sorted by, 0 in an empty table. Read from the end of the
 * sort order, so that it costs the same however long the table has grown.
 */
export function newest(table: string, column: string): string {
  return `ifNull((SELECT ${column} FROM ${table} ORDER BY ${column} DESC LIMIT 1), 0)`;
}
