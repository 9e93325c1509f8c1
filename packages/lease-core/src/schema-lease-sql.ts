/** Name of the table of schema leases unless another is given. One table serves many of them. */
export const defaultSchemaLeaseTable = "holdfast_schema_lease";

/** The statements of the schema lease; as with the publisher lease their text depends on the table's name alone. */
export interface SchemaLeaseSql {
  readonly create: string;
  readonly read: string;
  readonly write: string;
}

/** Renders the statements for one table, given as `qualified()` gives it. */
export function schemaLeaseSql(at: string): SchemaLeaseSql {
  return {
    // Stamps are epoch milliseconds: no column and no server has a say about their time zone. The TTL only clears away; whether a lease
    // has lapsed is decided by its reader.
    create:
      `CREATE TABLE IF NOT EXISTS ${at} (lock_name String, holder String, acquired_at_ms UInt64, expires_at_ms UInt64, released UInt8) ` +
      `ENGINE = ReplacingMergeTree(acquired_at_ms) ORDER BY lock_name ` +
      `TTL toDateTime(intDiv(expires_at_ms, 1000)) + INTERVAL 7 DAY`,
    // FINAL names the row that a merge would keep: the greatest stamp, and of equal ones the last inserted. Any other tie-break could
    // be contradicted by a merge between two reads.
    read:
      `SELECT holder, toString(acquired_at_ms) AS acquired_ms, toString(expires_at_ms) AS expires_ms, released ` +
      `FROM ${at} FINAL WHERE lock_name = {name:String}`,
    write:
      `INSERT INTO ${at} (lock_name, holder, acquired_at_ms, expires_at_ms, released) ` +
      `SELECT {name:String}, {holder:String}, {acquired_ms:UInt64}, {expires_ms:UInt64}, {released:UInt8}`,
  };
}
