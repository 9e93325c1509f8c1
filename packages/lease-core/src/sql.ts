/**
 * The statements of the publisher lease. Their text depends on the table's name alone: times, limits and quorum travel as parameters and
 * settings, so that the server sees the same few statements for ever.
 */
export interface LeaseSql {
  readonly version: string;
  readonly exists: string;
  readonly create: string;
  readonly head: string;
  readonly claim: string;
  readonly term: string;
  readonly tombstone: string;
  readonly fence: string;
}

/** Quotes a ClickHouse identifier. */
export function identifier(name: string): string {
  return "`" + name.replace(/[\\`]/g, "\\$&") + "`";
}

/** `database`.`table`, or the table alone when the connection's database is meant. */
export function qualified(table: string, database: string | undefined): string {
  return database === undefined ? identifier(table) : `${identifier(database)}.${identifier(table)}`;
}

const serverNow = "toUInt64(toUnixTimestamp64Nano(now64(9)))";

/** The newest term is found from the end of the sort key, so its cost does not grow with the number of renewals. */
const newestTerm = (at: string, name: string) =>
  `(SELECT term FROM ${at} WHERE name = {${name}:String} ORDER BY term DESC LIMIT 1)`;

/** Renders the statements for one table, given as `qualified()` gives it. */
export function leaseSql(at: string, replicated: boolean): LeaseSql {
  const columns = "(name, term, lease_id, holder, acquired_at_ns, expires_at_ns)";
  // The server's now is taken once, in the sub-select: acquired and expires must differ by exactly the TTL.
  const stamp = `FROM (SELECT ${serverNow} AS stamped_ns)`;
  const lease = "{name:String}, {term:UInt64}, {lease_id:UUID}, {holder:String}";
  return {
    version: "SELECT version() AS version",
    exists: `EXISTS TABLE ${at}`,
    create:
      `CREATE TABLE IF NOT EXISTS ${at} (name String, term UInt64, lease_id UUID, holder String, acquired_at_ns UInt64, expires_at_ns UInt64) ` +
      `ENGINE = ${replicated ? "ReplicatedMergeTree" : "MergeTree"} ORDER BY (name, term, lease_id)`,
    head:
      `SELECT toString(term) AS head_term, toString(lease_id) AS id, any(holder) AS held_by, toString(min(expires_at_ns)) AS expires_ns, ` +
      `toString(${serverNow}) AS now_ns FROM ${at} WHERE name = {name:String} AND term = ${newestTerm(at, "name")} ` +
      `GROUP BY term, lease_id ORDER BY lease_id DESC`,
    claim: `INSERT INTO ${at} ${columns} SELECT ${lease}, stamped_ns, stamped_ns + {ttl_ns:UInt64} ${stamp}`,
    term:
      `SELECT toString(lease_id) AS id, any(holder) AS held_by, toString(min(expires_at_ns)) AS expires_ns FROM ${at} ` +
      `WHERE name = {name:String} AND term = {term:UInt64} GROUP BY lease_id ORDER BY lease_id DESC`,
    tombstone: `INSERT INTO ${at} ${columns} SELECT ${lease}, stamped_ns, stamped_ns ${stamp}`,
    // One subquery gives one row: with two, "whose is the head" and "when does it expire" could be answered about different leases. And it
    // counts them: a renewal that lands late, at the term at which a successor holds already, must not let its lease's statements in again.
    fence:
      `((SELECT count() = 1 AND any(hf_id) = {hf_lease:UUID} AND any(hf_until) > ${serverNow} + {hf_margin_ns:UInt64} ` +
      `FROM (SELECT lease_id AS hf_id, min(expires_at_ns) AS hf_until FROM ${at} ` +
      `WHERE name = {hf_name:String} AND term = ${newestTerm(at, "hf_name")} GROUP BY lease_id)) = 1)`,
  };
}
