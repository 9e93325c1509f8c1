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
  sortKey: ["layout_version", "schema_version"].map(quoteIdentifier),
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
  sortKey: ["version"].map(quoteIdentifier),
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
  sortKey: ["index_version"].map(quoteIdentifier),
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
  sortKey: ["index_version", "store_id", "object_key"].map(quoteIdentifier),
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
  sortKey: ["store_id", "object_key"].map(quoteIdentifier),
};

function recordTable(schema: CaptureSchema): TableDefinition {
  return {
    role: "record",
    columns: columnsOf(schema),
    indexes: ["INDEX capture_id_bloom capture_id TYPE bloom_filter(0.001) GRANULARITY 1"],
    engine: "ReplacingMergeTree",
    versionColumn: "index_version",
    primaryKey: recordPrimaryKey(schema),
    sortKey: recordSortKey(schema),
  };
}

/** `CREATE TABLE IF NOT EXISTS`, harmless when it is there already. */
export function createTableStatement(
  definition: TableDefinition,
  tables: CatalogTables,
  o: { replicated?: boolean } = {},
): string {
  const engine = `${o.replicated === true ? "Replicated" : ""}${definition.engine}`;
  const lines = [...definition.columns.map(columnText), ...definition.indexes];
  const version = definition.versionColumn === null ? "" : `(${quoteIdentifier(definition.versionColumn)})`;
  return (
    `CREATE TABLE IF NOT EXISTS ${tables[definition.role]}\n(\n  ${lines.join(",\n  ")}\n)\n` +
    `ENGINE = ${engine}${version}\n` +
    (definition.primaryKey === null ? "" : `PRIMARY KEY ${keyText(definition.primaryKey)}\n`) +
    `ORDER BY ${keyText(definition.sortKey)}`
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

// One expression in parentheses would show up in system.tables with them, a list without.
function keyText(expressions: readonly string[]): string {
  return expressions.length === 1 ? expressions.join("") : `(${expressions.join(", ")})`;
}
