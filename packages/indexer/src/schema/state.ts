import type { CatalogClient } from "../catalog-client.js";
import type { Column } from "../catalog/columns.js";
import { stampStatement, type StampRow } from "../catalog/stamp.js";
import { catalogTables, type CatalogTables } from "../catalog/tables.js";
import type { CatalogState, FoundTable } from "./classify.js";

/** Reads what there is of a catalog. Several reads: decide by it only under the schema lease, or to find it complete. */
export async function readCatalogState(o: {
  catalog: CatalogClient;
  tables: CatalogTables;
  name: string;
  database: string | undefined;
}): Promise<CatalogState> {
  const { catalog, tables } = o;
  const names = catalogTables(o.name);
  const where = o.database === undefined ? "currentDatabase()" : "{database:String}";
  const parameters = { names: Object.values(names), ...(o.database === undefined ? {} : { database: o.database }) };
  const found = await catalog.decide<FoundTable>(
    `SELECT name, engine, engine_full, sorting_key FROM system.tables ` +
      `WHERE database = ${where} AND name IN {names:Array(String)}`,
    parameters,
  );
  const has = (name: string) => found.some((table) => table.name === name);
  const stamp = has(names.stamp) ? ((await catalog.decide<StampRow>(stampStatement(tables)))[0] ?? null) : null;
  const recordColumns = has(names.record)
    ? await catalog.decide<Column>(
        `SELECT name, type FROM system.columns WHERE database = ${where} AND table = {record:String}`,
        { ...parameters, record: names.record },
      )
    : [];
  const data = (["record", "inventory", "watermark", "manifest"] as const).filter((role) => has(names[role]));
  return {
    tables: found,
    stamp,
    recordColumns,
    hasData: await anyRow(
      catalog,
      data.map((role) => tables[role]),
    ),
  };
}

async function anyRow(catalog: CatalogClient, tables: readonly string[]): Promise<boolean> {
  if (tables.length === 0) return false;
  const parts = tables.map((table) => `(SELECT count() FROM (SELECT 1 FROM ${table} LIMIT 1))`);
  const [row] = await catalog.decide<{ rows: string }>(`SELECT ${parts.join(" + ")} AS rows`);
  return Number(row?.rows ?? 0) > 0;
}
