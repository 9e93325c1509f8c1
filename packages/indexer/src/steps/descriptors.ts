import type { CaptureSchema, IndexedRecord } from "@holdfast/pack-format";
import { columnsOf, fieldColumns } from "../catalog/columns.js";
import { jsonEncoder, type JsonValue } from "../catalog/values.js";
import type { CompactRow } from "../catalog-client.js";
import type { PackRef } from "../pack-ref.js";

/** The values of one record's row, in column order, without the version that it will be written at. */
export type DescriptorRow = readonly JsonValue[];

/** Columns of a descriptor INSERT: `index_version` is the last. */
export function descriptorColumns(schema: CaptureSchema): readonly string[] {
  return columnsOf(schema).map((column) => column.name);
}

/** Makes rows of one schema. A field that the pack's older schema version lacks is null: its column's default. */
export function descriptorEncoder(schema: CaptureSchema): (pack: PackRef, record: IndexedRecord) => DescriptorRow {
  const fields = fieldColumns(schema).map(({ name, type }) => ({ name, encode: jsonEncoder(type) }));
  return (pack, record) => {
    const { locator, scope } = record;
    return [
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
  };
}

/** The row as it is inserted at a version. */
export function atVersion(row: DescriptorRow, version: string): CompactRow {
  return [...row, version];
}

/** About how many bytes the row takes in an INSERT. */
export function rowBytes(row: DescriptorRow): number {
  return row.reduce<number>((sum, value) => sum + valueBytes(value), 0);
}

function valueBytes(value: JsonValue): number {
  if (typeof value === "string") return value.length + 3;
  if (Array.isArray(value)) return value.reduce<number>((sum, one: JsonValue) => sum + valueBytes(one), 2);
  if (typeof value === "object" && value !== null) {
    return Object.entries(value).reduce(
      (sum, [key, one]: [string, JsonValue]) => sum + key.length + valueBytes(one),
      2,
    );
  }
  return 8;
}
