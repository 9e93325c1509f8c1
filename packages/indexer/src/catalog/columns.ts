import type { CaptureSchema } from "@holdfast/pack-format";
import { quoteIdentifier } from "./tables.js";

/** One column of a table: name as in the table, ClickHouse type as in its declaration. */
export type Column = { readonly name: string; readonly type: string };

const leadingColumns: readonly Column[] = [
  { name: "capture_id", type: "String" },
  { name: "captured_at_ns", type: "UInt64" },
  { name: "tenant", type: "LowCardinality(String)" },
  { name: "session", type: "String" },
];

const locatorColumns: readonly Column[] = [
  { name: "pack_id", type: "UUID" },
  { name: "store_id", type: "LowCardinality(String)" },
  { name: "object_key", type: "String" },
  { name: "object_bytes", type: "UInt64" },
  { name: "pack_sha256", type: "FixedString(64)" },
  { name: "block_offset", type: "UInt64" },
  { name: "block_bytes", type: "UInt64" },
  { name: "codec", type: "LowCardinality(String)" },
  { name: "payload_offset", type: "UInt64" },
  { name: "payload_bytes", type: "UInt64" },
  { name: "payload_crc32", type: "UInt32" },
  { name: "index_version", type: "UInt64" },
];

/** The user's fields as columns, in declaration order. */
export function fieldColumns(schema: Pick<CaptureSchema, "fields">): readonly Column[] {
  return Object.entries(schema.fields).map(([name, type]) => ({ name, type }));
}

/** All columns of `<catalog>_record`: what every record has, the user's fields, then where its bytes lie. */
export function columnsOf(schema: Pick<CaptureSchema, "fields">): readonly Column[] {
  return [...leadingColumns, ...fieldColumns(schema), ...locatorColumns];
}

/**
 * Sort key of `<catalog>_record`, as expressions. Rows of one capture in one pack are equal in all of it, so a row written
 * again at a higher version replaces the lower one. Never a bare UUID: ClickHouse sorts UUIDs by their low half first.
 */
export function recordSortKey(schema: Pick<CaptureSchema, "fields" | "orderBy">): readonly string[] {
  return [...recordPrimaryKey(schema), ...["capture_id", "store_id", "object_key"].map(quoteIdentifier)];
}

/** The part of the sort key that is kept in memory as the sparse index. */
export function recordPrimaryKey(schema: Pick<CaptureSchema, "fields" | "orderBy">): readonly string[] {
  const types = new Map<string, string>(Object.entries(schema.fields));
  const user = schema.orderBy.map((name) => sortExpression({ name, type: types.get(name) ?? "" }));
  return [quoteIdentifier("tenant"), ...user, quoteIdentifier("captured_at_ns")];
}

/** What to order a column by: itself, or a UUID's text. */
export function sortExpression(column: Column): string {
  const name = quoteIdentifier(column.name);
  return column.type.includes("UUID") ? `toString(${name})` : name;
}
