import type { ObjectInfo } from "@holdfast/object-store";
import { parsePackKey } from "./keys.js";

/** An uploaded pack, as the catalog needs to know it. `sha256` is of the whole object, 64 hex digits. */
export type PackRef = {
  readonly storeId: string;
  readonly key: string;
  readonly packId: string;
  readonly writerId: string;
  readonly sequence: bigint;
  readonly bytes: number;
  readonly sha256: string;
  readonly records: number;
};

/** Value of `holdfast-format` on every pack object of this file version. */
export const packFormat = "pack-0";

/** Greatest record count that object metadata may claim. */
export const maxPackRecords = 1_000_000;

const sha256Pattern = /^[0-9a-f]{64}$/;
const countPattern = /^[1-9][0-9]{0,6}$/;

/** Object metadata of a pack. Upload it with exactly these entries: reconcile recognises packs by them. */
export function packMetadata(o: {
  packId: string;
  sha256: string;
  records: number;
  schema: { name: string; version: number };
}): Record<string, string> {
  return {
    "holdfast-format": packFormat,
    "holdfast-pack-id": o.packId,
    "holdfast-sha256": o.sha256,
    "holdfast-records": String(o.records),
    "holdfast-schema": `${o.schema.name}/${String(o.schema.version)}`,
  };
}

/**
 * The reference of a pack object found in a bucket, from a head or a listing that carries metadata. null when the key is
 * not a pack's or the metadata is not a pack's: such an object is foreign. Nothing in it is trusted: the index pass
 * compares it with the pack itself.
 */
export function packRefFromInfo(storeId: string, info: ObjectInfo): PackRef | null {
  const parts = parsePackKey(info.key);
  if (parts?.packId == null) return null;
  const { metadata } = info;
  const sha256 = metadata["holdfast-sha256"] ?? "";
  const count = metadata["holdfast-records"] ?? "";
  if (metadata["holdfast-format"] !== packFormat || metadata["holdfast-pack-id"] !== parts.packId) return null;
  if (!sha256Pattern.test(sha256) || !countPattern.test(count) || Number(count) > maxPackRecords) return null;
  return {
    storeId,
    key: info.key,
    packId: parts.packId,
    writerId: parts.writerId,
    sequence: parts.sequence,
    bytes: info.size,
    sha256,
    records: Number(count),
  };
}
