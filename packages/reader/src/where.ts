import { columnFor, type QueryColumn } from "./query-columns.js";
import { parameterValue } from "./query-values.js";
import { ReaderError } from "./reader-error.js";

/** A condition as SQL with its parameters; `sql` is "1" when it lets everything through. */
export type Filter = { readonly sql: string; readonly parameters: Readonly<Record<string, unknown>> };

const operators = { gte: ">=", gt: ">", lte: "<=", lt: "<" } as const;
const greatestList = 10_000;

/** Values never stand in the text: each is a parameter of its column's type. */
export function filterOf(columns: ReadonlyMap<string, QueryColumn>, where: Readonly<Record<string, unknown>>): Filter {
  const parameters: Record<string, unknown> = {};
  const bindValue = (type: string, value: unknown): string => {
    const name = `hf_w${String(Object.keys(parameters).length)}`;
    parameters[name] = value;
    return `{${name}:${type}}`;
  };
  const parts = Object.entries(where)
    .filter(([, condition]) => condition !== undefined)
    .map(([name, condition]) => conditionSql(columnFor(columns, name, "where"), condition, bindValue));
  return { sql: parts.length === 0 ? "1" : parts.join(" AND "), parameters };
}

type Bind = (type: string, value: unknown) => string;

function conditionSql(column: QueryColumn, condition: unknown, bindValue: Bind): string {
  if (condition === null) return `isNull(${column.sql})`;
  if (Array.isArray(condition)) return oneOf(column, condition, bindValue);
  if (typeof condition === "object") return range(column, condition as Record<string, unknown>, bindValue);
  return `${column.sql} = ${bindValue(column.type, parameterValue(column, condition))}`;
}

function oneOf(column: QueryColumn, values: readonly unknown[], bindValue: Bind): string {
  if (values.length > greatestList) {
    throw new ReaderError(
      "QUERY_INVALID",
      `where ${column.name} lists ${String(values.length)} values; at most ${String(greatestList)} are allowed, ask in several queries`,
    );
  }
  const present = values.filter((value) => value !== null).map((value) => parameterValue(column, value));
  const listed = `${column.sql} IN ${bindValue(`Array(${column.type})`, present)}`;
  const withNull = present.length < values.length;
  if (present.length === 0) return withNull ? `isNull(${column.sql})` : "0";
  return withNull ? `(${listed} OR isNull(${column.sql}))` : listed;
}

function range(column: QueryColumn, bounds: Readonly<Record<string, unknown>>, bindValue: Bind): string {
  const parts = Object.entries(bounds)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => {
      const operator = Object.hasOwn(operators, key) ? operators[key as keyof typeof operators] : undefined;
      if (operator === undefined) {
        throw new ReaderError("QUERY_INVALID", `where ${column.name} has the bound ${key}; use gte, gt, lte or lt`);
      }
      return `${column.sql} ${operator} ${bindValue(column.type, parameterValue(column, value))}`;
    });
  if (parts.length > 0) return `(${parts.join(" AND ")})`;
  throw new ReaderError("QUERY_INVALID", `where ${column.name} is a range without a bound; use gte, gt, lte or lt`);
}
