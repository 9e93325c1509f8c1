import type { CaptureSchema } from "@holdfast/pack-format";
import { columnsOf, recordPrimaryKey, recordSortKey, type Column } from "../catalog/columns.js";
import { quoteIdentifier, type CatalogTables } from "../catalog/tables.js";

export type TableDefinition = {
  readonly role: keyof CatalogTables;
  readonly columns: readonly Column[];
  readonly indexes: readonly string[];
  /** Name of the engine without its arguments; a server may show it as Replicated… or Shared…. */
  readonly engine: "MergeTree" | "ReplacingMergeTree";
  readonly versionColumn: string | null;
  readonly primaryKey: readonly string[] | null;
  readonly sortKey: readonly string[];
  readonly settings: readonly string[];
};

const publishColumns: readonly Column[] = [
  { name: "index_version", type: "UInt64" },
  { name: "publish_id", type: "UUID" },
];

/** Every table of a catalog. The order is the order of creation: the stamp's table first, see ensureSchema. */
export function tableDefinitions(schema: CaptureSchema): readonly TableDefinition[] {
  return [stampTable, versionClaimTable, watermarkTable, manifestTable, inventoryTable, recordTable(schema)];
}

const stampTable: TableDefinition = {
  role: "stamp",
  columns: [
    { name: "layout_version", type: "UInt32" },
    { name: "schema_version", type: "UInt32" },
    { name: "schema_json", type: "String" },
    { name: "applied_at_ns", type: "UInt64" },
  ],
  indexes: [],
  engine: "MergeTree",
  versionColumn: null,
  primaryKey: null,
  sortKey: ["layout_version", "schema_version"],
  settings: [],
};

const versionClaimTable: TableDefinition = {
  role: "versionClaim",
  columns: [
    { name: "version", type: "UInt64" },
    { name: "claim_id", type: "UUID" },
    { name: "claimed_at_ns", type: "UInt64" },
  ],
  indexes: [],
  engine: "MergeTree",
  versionColumn: null,
  primaryKey: null,
  sortKey: ["version"],
  settings: [],
};

const watermarkTable: TableDefinition = {
  role: "watermark",
  columns: [
    ...publishColumns,
    { name: "published_at_ns", type: "UInt64" },
    { name: "indexed_rows", type: "UInt64" },
    { name: "indexed_packs", type: "UInt32" },
  ],
  indexes: [],
  engine: "MergeTree",
  versionColumn: null,
  primaryKey: null,
  sortKey: ["index_version"],
  settings: [],
};

const manifestTable: TableDefinition = {
  role: "manifest",
  columns: [
    ...publishColumns,
    { name: "store_id", type: "LowCardinality(String)" },
    { name: "object_key", type: "String" },
    { name: "pack_id", type: "UUID" },
    { name: "change", type: "Int8" },
  ],
  // The replay guard asks by pack id; the sort key is by version, which is what snapshots ask by.
  indexes: ["INDEX pack_id_bloom pack_id TYPE bloom_filter(0.01) GRANULARITY 1"],
  engine: "MergeTree",
  versionColumn: null,
  primaryKey: null,
  sortKey: ["index_version", "store_id", "object_key"],
  settings: [],
};

const inventoryTable: TableDefinition = {
  role: "inventory",
  columns: [
    { name: "store_id", type: "LowCardinality(String)" },
    { name: "object_key", type: "String" },
    { name: "pack_id", type: "UUID" },
    { name: "writer_id", type: "String" },
    { name: "sequence", type: "UInt64" },
    { name: "object_bytes", type: "UInt64" },
    { name: "pack_sha256", type: "FixedString(64)" },
    { name: "record_count", type: "UInt32" },
    { name: "index_version", type: "UInt64" },
  ],
  indexes: [],
  engine: "ReplacingMergeTree",
  versionColumn: "index_version",
  primaryKey: null,
  sortKey: ["store_id", "object_key"],
  settings: [],
};

function recordTable(schema: CaptureSchema): TableDefinition {
  const types = new Map(Object.entries(schema.fields));
  const nullable = schema.orderBy.some((name) => (types.get(name) ?? "").includes("Nullable("));
  return {
    role: "record",
    columns: columnsOf(schema),
    indexes: ["INDEX capture_id_bloom capture_id TYPE bloom_filter(0.01) GRANULARITY 4"],
    engine: "ReplacingMergeTree",
    versionColumn: "index_version",
    primaryKey: recordPrimaryKey(schema),
    sortKey: recordSortKey(schema),
    settings: nullable ? ["allow_nullable_key = 1"] : [],
  };
}

/** `CREATE TABLE IF NOT EXISTS`, harmless when it is there already. */
export function createTableStatement(definition: TableDefinition, tables: CatalogTables): string {
  const lines = [...definition.columns.map(columnText), ...definition.indexes];
  const version = definition.versionColumn === null ? "" : `(${quoteIdentifier(definition.versionColumn)})`;
  return (
    `CREATE TABLE IF NOT EXISTS ${tables[definition.role]}\n(\n  ${lines.join(",\n  ")}\n)\n` +
    `ENGINE = ${definition.engine}${version}\n` +
    (definition.primaryKey === null ? "" : `PRIMARY KEY ${keyText(definition.primaryKey)}\n`) +
    `ORDER BY ${keyText(definition.sortKey)}` +
    (definition.settings.length === 0 ? "" : `\nSETTINGS ${definition.settings.join(", ")}`)
  );
}

/** Adds the columns of a newer schema version. Rows written before have the type's default in them. */
export function addColumnsStatement(added: readonly Column[], tables: CatalogTables): string {
  const parts = added.map(
    (column) => `ADD COLUMN IF NOT EXISTS ${columnText(column)} AFTER ${quoteIdentifier("session")}`,
  );
  return `ALTER TABLE ${tables.record} ${parts.join(", ")}`;
}

function columnText(column: Column): string {
  return `${quoteIdentifier(column.name)} ${column.type}`;
}

function keyText(names: readonly string[]): string {
  return `(${names.map(quoteIdentifier).join(", ")})`;
}
