import type { CaptureSchema } from "@holdfast/pack-format";
import { fieldColumns, membersStatement, quoteIdentifier, type CatalogTables } from "@holdfast/indexer/catalog";
import type { Filter } from "./where.js";
import { behind, orderSql, type SearchOrder } from "./order.js";

/** What is selected of a record, in the order in which decodeRow takes it. */
export function recordColumns(schema: CaptureSchema): readonly string[] {
  const plain = (names: readonly string[]) => names.map((name) => `r.${quoteIdentifier(name)}`);
  return [
    ...plain(["capture_id", "captured_at_ns", "tenant", "session"]),
    ...plain(fieldColumns(schema).map((column) => column.name)),
    "toString(r.`pack_id`)",
    ...plain(["store_id", "object_key", "block_offset", "block_bytes", "codec"]),
    ...plain(["payload_offset", "payload_bytes", "payload_crc32"]),
  ];
}

function isMember(tables: CatalogTables): string {
  return `(r.store_id, r.pack_id) IN (SELECT store_id, pack_id FROM (${membersStatement(tables)}))`;
}

function withMembers(tables: CatalogTables): string {
  return (
    `${tables.record} AS r INNER JOIN (${membersStatement(tables)}) AS m ` +
    `ON r.store_id = m.store_id AND r.pack_id = m.pack_id`
  );
}

const rank = "(m.first_version, r.store_id, r.object_key)";

/**
 * SELECT of candidate rows in search order: each record of each member pack once, however often it was written. Records
 * that another pack has under the same captureId are still among them: see rivalsStatement.
 */
export function searchStatement(o: {
  tables: CatalogTables;
  schema: CaptureSchema;
  filter: Filter;
  order: SearchOrder;
  after: readonly unknown[] | null;
}): { sql: string; parameters: Readonly<Record<string, unknown>> } {
  const { tables, schema, filter, order, after } = o;
  const beyond = after === null ? { sql: "1", parameters: {} } : behind(order, after);
  const columns = [...recordColumns(schema), ...order.keys.map((key) => key.sql)];
  return {
    sql:
      `SELECT ${columns.join(", ")} FROM ${tables.record} AS r WHERE ${isMember(tables)} ` +
      `AND (${filter.sql}) AND (${beyond.sql}) ` +
      `ORDER BY ${orderSql(order)} LIMIT 1 BY r.capture_id, r.store_id, r.object_key LIMIT {hf_limit:UInt64}`,
    parameters: { ...filter.parameters, ...beyond.parameters },
  };
}

/**
 * SELECT of those of the given captureIds that more than one member pack has, each with the pack that shows it: the one
 * whose first publish came first. So what a snapshot showed once, no later publish changes.
 */
export function rivalsStatement(tables: CatalogTables): string {
  return (
    `SELECT r.capture_id, argMin((r.store_id, r.object_key), ${rank}) AS hf_winner FROM ${withMembers(tables)} ` +
    `WHERE r.capture_id IN {hf_ids:Array(String)} ` +
    `GROUP BY r.capture_id HAVING uniqExact(r.store_id, r.object_key) > 1`
  );
}

/** SELECT of one record by captureId. */
export function getStatement(tables: CatalogTables, schema: CaptureSchema): string {
  return (
    `SELECT ${recordColumns(schema).join(", ")} FROM ${withMembers(tables)} ` +
    `WHERE r.capture_id = {hf_id:String} ORDER BY m.first_version, r.store_id, r.object_key LIMIT 1`
  );
}

/** SELECT of the number of records that a search with this filter shows. */
export function countStatement(tables: CatalogTables, filter: Filter): string {
  if (filter.sql === "1") return `SELECT uniqExact(r.capture_id) FROM ${tables.record} AS r WHERE ${isMember(tables)}`;
  // A record counts when the pack that shows it matches: another pack's record of the same captureId does not make it.
  const matching = `SELECT r.capture_id FROM ${tables.record} AS r WHERE ${isMember(tables)} AND (${filter.sql})`;
  return (
    `SELECT count() FROM (SELECT r.capture_id, argMin(ifNull((${filter.sql}), 0), ${rank}) AS hf_shown ` +
    `FROM ${withMembers(tables)} WHERE r.capture_id IN (${matching}) GROUP BY r.capture_id) WHERE hf_shown`
  );
}
