import type { CaptureSchema, IndexedRecord } from "@holdfast/pack-format";
import { columnsOf, fieldColumns } from "../catalog/columns.js";
import { jsonEncoder, type JsonValue } from "../catalog/values.js";
import type { PackRef } from "../pack-ref.js";

/**
 * One record's row as a JSONCompactEachRow line that is still open: its last value, the version, is added when the version
 * is known. Made once, outside the lease lock, and written again as it is when a publish has to go to a higher version.
 */
export type DescriptorRow = string & { readonly __descriptor: "open line" };

/** Columns of a descriptor INSERT: `index_version` is the last. */
export function descriptorColumns(schema: CaptureSchema): readonly string[] {
  return columnsOf(schema).map((column) => column.name);
}

/** Makes rows of one schema. A field that the pack's older schema version lacks is null: its column's default. */
export function descriptorEncoder(schema: CaptureSchema): (pack: PackRef, record: IndexedRecord) => DescriptorRow {
  const fields = fieldColumns(schema).map(({ name, type }) => ({ name, encode: jsonEncoder(type) }));
  return (pack, record) => {
    const { locator, scope } = record;
    const values: readonly JsonValue[] = [
      record.captureId,
      record.capturedAtNs.toString(),
      scope.tenant,
      scope.session,
      ...fields.map(({ name, encode }) => encode(record.fields[name])),
      pack.packId,
      pack.storeId,
      pack.key,
      pack.bytes,
      pack.sha256,
      locator.blockOffset,
      locator.blockBytes,
      locator.codec,
      locator.payloadOffset,
      locator.payloadBytes,
      locator.payloadCrc32,
    ];
    return JSON.stringify(values).slice(0, -1) as DescriptorRow;
  };
}

/** The rows as the text of an INSERT at a version. */
export function linesAt(rows: readonly DescriptorRow[], version: bigint): string {
  const end = `,"${version.toString()}"]\n`;
  return rows.length === 0 ? "" : rows.join(end) + end;
}
