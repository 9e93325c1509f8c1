import type { CompactRow } from "./catalog-client.js";
import type { PackRef } from "./pack-ref.js";

export const inventoryColumns = [
  "store_id",
  "object_key",
  "pack_id",
  "writer_id",
  "sequence",
  "object_bytes",
  "pack_sha256",
  "record_count",
  "index_version",
] as const;

/** The row that tells every later pass: this pack is visible, nothing is to be done. */
export function inventoryRow(pack: PackRef, version: bigint): CompactRow {
  return [
    pack.storeId,
    pack.key,
    pack.packId,
    pack.writerId,
    pack.sequence.toString(),
    pack.bytes,
    pack.sha256,
    pack.records,
    version.toString(),
  ];
}
