import type { CaptureSchema } from "@holdfast/pack-format";
import { CliError } from "./errors.js";

type Value = string | number | bigint | boolean;
type Range = { gte?: Value; gt?: Value; lte?: Value; lt?: Value };
/** What a reader takes as `where`, with columns checked against the schema. */
export type Filter = Record<string, Value | Value[] | Range>;

// The four columns that every record has, under the names that a person sees in ClickHouse and those of the reader.
const systemTypes: ReadonlyMap<string, { name: string; type: string }> = new Map([
  ["tenant", { name: "tenant", type: "String" }],
  ["session", { name: "session", type: "String" }],
  ["capture_id", { name: "captureId", type: "String" }],
  ["captured_at_ns", { name: "capturedAtNs", type: "UInt64" }],
]);

const inner = (type: string): string => {
  const wrapped = /^(?:Nullable|LowCardinality)\((.*)\)$/.exec(type);
  return wrapped?.[1] === undefined ? type : inner(wrapped[1]);
};

function column(schema: CaptureSchema, name: string): { name: string; type: string } {
  const system = systemTypes.get(name);
  if (system !== undefined) return system;
  const type = Object.hasOwn(schema.fields, name) ? schema.fields[name] : undefined;
  if (typeof type !== "string") {
    const known = [...Object.keys(schema.fields), ...systemTypes.keys()].join(", ");
    throw new CliError("USAGE_INVALID", `--where ${name}: ${schema.name} has no such column; it has ${known}`);
  }
  return { name, type: inner(type) };
}

function parseValue(text: string, type: string, clause: string): Value {
  const refuse = (what: string): CliError => new CliError("USAGE_INVALID", `--where ${clause}: ${type} needs ${what}`);
  if (/^U?Int64$/.test(type)) {
    if (!/^-?\d+$/.test(text)) throw refuse("a whole number");
    return BigInt(text);
  }
  if (/^U?Int(8|16|32)$/.test(type)) {
    if (!/^-?\d+$/.test(text)) throw refuse("a whole number");
    return Number(text);
  }
  if (/^Float(32|64)$/.test(type)) {
    if (text.trim() === "" || !Number.isFinite(Number(text))) throw refuse("a number");
    return Number(text);
  }
  if (type === "Bool") {
    if (text !== "true" && text !== "false") throw refuse("true or false");
    return text === "true";
  }
  if (type === "String" || type === "UUID" || type.startsWith("Enum")) return text;
  throw new CliError("USAGE_INVALID", `--where ${clause}: a column of type ${type} cannot be searched from here`);
}

const operators = { ">=": "gte", "<=": "lte", ">": "gt", "<": "lt" } as const;

/**
 * Reads the `--where` clauses: `column=value`, or `>=`, `<=`, `>`, `<`. Several `=` on one column mean any of them; ranges on
 * one column are taken together.
 * @throws CliError `USAGE_INVALID` that names the clause and what is allowed.
 */
export function parseWhere(clauses: readonly string[], schema: CaptureSchema): Filter {
  const filter: Filter = {};
  for (const clause of clauses) {
    const [, name = "", operator = "", text = ""] = /^([A-Za-z_][A-Za-z0-9_]*)(>=|<=|=|>|<)(.*)$/s.exec(clause) ?? [];
    if (name === "") throw new CliError("USAGE_INVALID", `--where ${clause}: say column=value, or use >=, <=, >, <`);
    const { name: key, type } = column(schema, name);
    const value = parseValue(text, type, clause);
    filter[key] = combine(filter[key], operator, value, clause);
  }
  return filter;
}

function combine(earlier: Filter[string] | undefined, operator: string, value: Value, clause: string): Filter[string] {
  const isRange = typeof earlier === "object" && !Array.isArray(earlier);
  if (operator === "=") {
    if (isRange) throw new CliError("USAGE_INVALID", `--where ${clause}: one column has either values or a range`);
    if (earlier === undefined) return value;
    return Array.isArray(earlier) ? [...earlier, value] : [earlier, value];
  }
  if (earlier !== undefined && !isRange) {
    throw new CliError("USAGE_INVALID", `--where ${clause}: one column has either values or a range`);
  }
  const bound = operators[operator as keyof typeof operators];
  return { ...(isRange ? earlier : {}), [bound]: value };
}
