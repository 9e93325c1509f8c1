import { CatalogError } from "../catalog-error.js";

/** Names of the six tables of one catalog; the lease tables belong to lease-core. */
export type CatalogTables = {
  readonly record: string;
  readonly inventory: string;
  readonly watermark: string;
  readonly manifest: string;
  readonly versionClaim: string;
  readonly stamp: string;
};

// The rule of capture schema names: the catalog is named like its schema.
const catalogPattern = /^[a-z][a-z0-9_]{0,47}$/;
const databasePattern = /^[A-Za-z_][A-Za-z0-9_]{0,63}$/;

/** Bare table names of a catalog (no database, no quoting): `<catalog>_record` and so on. CATALOG_NAME_INVALID. */
export function catalogTables(catalog: string): CatalogTables {
  const prefix = checkCatalogName(catalog);
  return {
    record: `${prefix}_record`,
    inventory: `${prefix}_pack_inventory`,
    watermark: `${prefix}_index_watermark`,
    manifest: `${prefix}_snapshot_manifest`,
    versionClaim: `${prefix}_version_claim`,
    stamp: `${prefix}_schema_stamp`,
  };
}

/** The same names as they stand in a statement: quoted, and with the database when one is given. */
export function tableReferences(catalog: string, database?: string): CatalogTables {
  const names = catalogTables(catalog);
  const prefix = database === undefined ? "" : `${quoteIdentifier(checkDatabaseName(database))}.`;
  const reference = (name: string) => prefix + quoteIdentifier(name);
  return {
    record: reference(names.record),
    inventory: reference(names.inventory),
    watermark: reference(names.watermark),
    manifest: reference(names.manifest),
    versionClaim: reference(names.versionClaim),
    stamp: reference(names.stamp),
  };
}

/** Returns the name, or throws CATALOG_NAME_INVALID: it becomes part of table names, keys and the lease name. */
export function checkCatalogName(catalog: string): string {
  if (catalogPattern.test(catalog)) return catalog;
  throw new CatalogError(
    "CATALOG_NAME_INVALID",
    `catalog name ${JSON.stringify(catalog)} must match ${catalogPattern.source}; it is the capture schema's name`,
  );
}

export function checkDatabaseName(database: string): string {
  if (databasePattern.test(database)) return database;
  throw new CatalogError(
    "CATALOG_NAME_INVALID",
    `database name ${JSON.stringify(database)} must match ${databasePattern.source}`,
  );
}

export function quoteIdentifier(name: string): string {
  return `\`${name.replace(/[\\`]/g, "\\$&")}\``;
}

/** A string literal. Only for texts whose characters have been checked; everything of a user goes as a parameter. */
export function quoteText(text: string): string {
  return `'${text.replace(/[\\']/g, "\\$&")}'`;
}
