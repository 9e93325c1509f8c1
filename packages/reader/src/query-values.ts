import { ReaderError } from "./reader-error.js";
import type { QueryColumn } from "./query-columns.js";

const integerBits = /^(U?)Int(8|16|32|64)$/;

/**
 * A value as a statement parameter of the column's type, or QUERY_INVALID. Checked here, since the server would take the
 * low bits of a number that does not fit, or refuse with a message about its own parser.
 */
export function parameterValue(column: QueryColumn, value: unknown): string | number | bigint | boolean {
  const integer = integerBits.exec(column.type);
  if (integer !== null) return integerValue(column, value, integer[1] === "U", Number(integer[2]));
  switch (column.type) {
    case "Float32":
    case "Float64":
      if (typeof value === "number" && Number.isFinite(value)) return value;
      return wrong(column, value, "a finite number");
    case "Bool":
      if (typeof value === "boolean") return value;
      return wrong(column, value, "true or false");
    default:
      if (typeof value === "string") return value;
      return wrong(column, value, "a string");
  }
}

function integerValue(column: QueryColumn, value: unknown, unsigned: boolean, bits: number): bigint {
  const whole = typeof value === "bigint" || (typeof value === "number" && Number.isSafeInteger(value));
  const low = unsigned ? 0n : -(2n ** BigInt(bits - 1));
  const high = unsigned ? 2n ** BigInt(bits) - 1n : 2n ** BigInt(bits - 1) - 1n;
  const range = `a whole number from ${low.toString()} to ${high.toString()}`;
  if (!whole) return wrong(column, value, range);
  const exact = BigInt(value);
  return exact >= low && exact <= high ? exact : wrong(column, value, range);
}

function wrong(column: QueryColumn, value: unknown, wanted: string): never {
  throw new ReaderError(
    "QUERY_INVALID",
    `${column.name} (${column.type}) is compared with ${shown(value)}; it takes ${wanted}`,
  );
}

function shown(value: unknown): string {
  if (typeof value === "bigint") return `${value.toString()}n`;
  if (typeof value === "string") return JSON.stringify(value.slice(0, 60));
  return typeof value === "object" && value !== null ? "an object" : String(value);
}
