import type { CaptureSchema } from "@holdfast/pack-format";
import type { CatalogErrorCode } from "../catalog-error.js";
import { columnsOf, type Column } from "../catalog/columns.js";
import { compareStamp, type StampRow } from "../catalog/stamp.js";
import { catalogTables, type CatalogTables } from "../catalog/tables.js";
import { tableDefinitions, type TableDefinition } from "./ddl.js";

/** A table as system.tables shows it. */
export type FoundTable = {
  readonly name: string;
  readonly engine: string;
  readonly engine_full: string;
  readonly sorting_key: string;
};

/** Everything of a catalog that decides what is to be done with it. */
export type CatalogState = {
  readonly tables: readonly FoundTable[];
  /** The newest stamp; null without one. */
  readonly stamp: StampRow | null;
  /** Columns of the record table; empty without it. */
  readonly recordColumns: readonly Column[];
  /** Whether any of record, inventory, watermark and manifest has a row. */
  readonly hasData: boolean;
};

/**
 * What to do with a catalog:
 *
 * - `complete`: nothing.
 * - `install`: tables or the stamp are missing and there is no data yet.
 * - `extend`: the schema has fields that the catalog lacks.
 * - `refuse`: it is not ours to change; `problem` says what is wrong and what to do.
 */
export type CatalogVerdict =
  | { readonly verdict: "complete" }
  | { readonly verdict: "install"; readonly missing: readonly (keyof CatalogTables)[] }
  | { readonly verdict: "extend"; readonly added: readonly Column[] }
  | { readonly verdict: "refuse"; readonly code: CatalogErrorCode; readonly problem: string };

const rebuild =
  "move its tables away (or drop them) and index the bucket again; packs are the durable truth, a catalog can be rebuilt";

/** Decides by what is there. Pure. */
export function classify(state: CatalogState, schema: CaptureSchema): CatalogVerdict {
  const names = catalogTables(schema.name);
  const definitions = tableDefinitions(schema);
  const found = new Map(state.tables.map((table) => [table.name, table]));
  const missing = definitions.filter((each) => !found.has(names[each.role])).map((each) => each.role);
  const stamp = state.stamp === null ? null : compareStamp(state.stamp, schema);
  if (stamp?.verdict === "newer-layout") return refuse("CATALOG_NEWER", stamp.problem);
  if (stamp !== null && "problem" in stamp) return refuse("CATALOG_SCHEMA_MISMATCH", stamp.problem);
  for (const definition of definitions) {
    const table = found.get(names[definition.role]);
    const problem = table === undefined ? null : shapeProblem(table, definition);
    if (problem !== null) return refuse("CATALOG_SCHEMA_MISMATCH", `${problem}; ${rebuild}`);
  }
  if (state.hasData && stamp === null) {
    return refuse("CATALOG_UNSTAMPED", `its tables hold data and no stamp says of which layout; ${rebuild}`);
  }
  if (state.hasData && missing.length > 0) {
    const gone = missing.map((role) => names[role]).join(", ");
    return refuse(
      "CATALOG_SCHEMA_MISMATCH",
      `${gone} is missing while other tables hold data; restore it, or ${rebuild}`,
    );
  }
  if (missing.length > 0 || stamp === null) return { verdict: "install", missing };
  if (stamp.verdict === "schema-ahead") return { verdict: "extend", added: stamp.added };
  const column = columnProblem(state.recordColumns, schema, names.record);
  return column === null ? { verdict: "complete" } : refuse("CATALOG_SCHEMA_MISMATCH", `${column}; ${rebuild}`);
}

function refuse(code: CatalogErrorCode, problem: string): CatalogVerdict {
  return { verdict: "refuse", code, problem };
}

function shapeProblem(table: FoundTable, definition: TableDefinition): string | null {
  const engine = table.engine.replace(/^(Replicated|Shared)/, "");
  if (engine !== definition.engine) {
    return `${table.name} has engine ${table.engine}, wanted is (Replicated|Shared)${definition.engine}`;
  }
  const wanted = definition.sortKey.join(", ");
  if (plain(table.sorting_key) !== plain(wanted)) {
    return `${table.name} is ordered by (${table.sorting_key}), wanted is (${wanted})`;
  }
  const version = definition.versionColumn;
  if (version !== null && !new RegExp(`${version}\\s*\\)`).test(table.engine_full.replaceAll("`", ""))) {
    return `${table.name} does not replace by ${version}: ${table.engine_full}`;
  }
  return null;
}

function columnProblem(found: readonly Column[], schema: CaptureSchema, table: string): string | null {
  const types = new Map(found.map((column) => [column.name, column.type]));
  for (const { name, type } of columnsOf(schema)) {
    const there = types.get(name);
    if (there === undefined) return `${table} has no column ${name}, though its stamp says so`;
    if (plain(there) !== plain(type)) return `${table} has column ${name} ${there}, wanted is ${type}`;
  }
  return null;
}

function plain(text: string): string {
  return text.replace(/[`\s]/g, "");
}
