// Table names, columns and row types of a catalog: what a reader of the tables needs. No I/O.
export { catalogTables, checkCatalogName, checkDatabaseName, quoteIdentifier, tableReferences } from "./tables.js";
export type { CatalogTables } from "./tables.js";
export { columnsOf, fieldColumns, recordPrimaryKey, recordSortKey } from "./columns.js";
export type { Column } from "./columns.js";
export { compareStamp, layoutVersion, stampJson, stampStatement } from "./stamp.js";
export type { StampRow, StampVerdict } from "./stamp.js";
export { headStatement, membersStatement, snapshotParameter } from "./membership.js";
export { jsonDecoder, jsonEncoder, plainType } from "./values.js";
export type { JsonValue } from "./values.js";
