import { columnFor, type QueryColumn } from "./query-columns.js";
import { ReaderError } from "./reader-error.js";

/** One key of a total order over candidate rows. Never null, so that "behind this row" can be said in SQL. */
export type OrderKey = { readonly sql: string; readonly type: string; readonly descending: boolean };

/** The order of a search: what was asked for, then captureId, then the object that holds the record. */
export type SearchOrder = { readonly keys: readonly OrderKey[]; readonly names: readonly string[] };

const tieBreakers: readonly OrderKey[] = [
  { sql: "r.`capture_id`", type: "String", descending: false },
  { sql: "r.`object_key`", type: "String", descending: false },
];

/** QUERY_INVALID for a column that cannot be ordered by, or that is named twice. */
export function orderOf(columns: ReadonlyMap<string, QueryColumn>, orderBy: readonly unknown[]): SearchOrder {
  const asked = orderBy.map(askedOrder);
  const names = asked.map((each) => `${each.descending ? "-" : "+"}${each.column}`);
  const seen = new Set<string>();
  const keys = asked.flatMap(({ column, descending }) => {
    if (seen.has(column)) throw new ReaderError("QUERY_INVALID", `orderBy names ${column} twice`);
    seen.add(column);
    return keysOf(columnFor(columns, column, "orderBy"), descending);
  });
  return { keys: [...keys, ...tieBreakers], names };
}

function askedOrder(order: unknown): { column: string; descending: boolean } {
  if (typeof order === "string") return { column: order, descending: false };
  if (typeof order === "object" && order !== null && "column" in order && typeof order.column === "string") {
    return { column: order.column, descending: "descending" in order && order.descending === true };
  }
  throw new ReaderError("QUERY_INVALID", `orderBy takes column names or { column, descending }`);
}

/** Nulls come last in either direction, as in ClickHouse; as a key of its own, so that it can be compared. */
function keysOf(column: QueryColumn, descending: boolean): OrderKey[] {
  if (!column.nullable) return [{ sql: column.sql, type: column.type, descending }];
  const zero = column.type === "String" ? "''" : column.type === "Bool" ? "false" : "0";
  return [
    { sql: `isNull(${column.sql})`, type: "UInt8", descending: false },
    { sql: `ifNull(${column.sql}, ${zero})`, type: column.type, descending },
  ];
}

export function orderSql(order: SearchOrder): string {
  return order.keys.map((key) => `${key.sql}${key.descending ? " DESC" : ""}`).join(", ");
}

/**
 * Condition for rows behind the row with these key values: greater in the first key, or equal in it and greater in the
 * second, and so on. The first key's bound stands by itself as well, so that the sparse index can use it.
 */
export function behind(
  order: SearchOrder,
  values: readonly unknown[],
): { readonly sql: string; readonly parameters: Readonly<Record<string, unknown>> } {
  const parameters = Object.fromEntries(values.map((value, at) => [`hf_k${String(at)}`, value]));
  const compare = (at: number, operator: string): string => {
    const key = order.keys[at];
    return key === undefined ? "0" : `${key.sql} ${operator} {hf_k${String(at)}:${key.type}}`;
  };
  const further = (at: number): string => (order.keys[at]?.descending === true ? "<" : ">");
  const cases = order.keys.map((_, at) =>
    [...order.keys.slice(0, at).map((_key, before) => compare(before, "=")), compare(at, further(at))].join(" AND "),
  );
  return { sql: `${compare(0, `${further(0)}=`)} AND (${cases.map((each) => `(${each})`).join(" OR ")})`, parameters };
}
