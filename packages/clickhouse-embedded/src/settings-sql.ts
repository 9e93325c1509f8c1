import { checkSetting } from "./sql-gate.js";
import { QueryError } from "./clickhouse-errors.js";

const escapes: Readonly<Record<string, string>> = { "\\": "\\\\", "'": "\\'", "\0": "\\0" };

/** A string as a SQL literal. */
export const literal = (value: string): string => `'${value.replace(/[\\'\0]/g, (c) => escapes[c] ?? c)}'`;

/** A name as a quoted SQL identifier. */
export const identifier = (name: string): string => `\`${name.replace(/[\\`]/g, "\\$&")}\``;

/**
 * One SET statement for the settings and parameters of a request, or null when there are none. Values go as quoted strings, as HTTP hands
 * them over; the engine reads them by the setting's type. Parameters stay exactly as they came: their values are escaped text already.
 */
export function setStatement(
  settings: ReadonlyMap<string, string>,
  params: ReadonlyMap<string, string>,
): string | null {
  const parts: string[] = [];
  for (const [name, value] of settings) {
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) throw QueryError.of(115, `Unknown setting '${name}'.`);
    checkSetting(name, value);
    parts.push(`${name}=${literal(value)}`);
  }
  for (const [name, value] of params) {
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) {
      throw QueryError.of(36, `Query parameter '${name}' is not a plain name (letters, digits, _).`);
    }
    parts.push(`param_${name}=${literal(value)}`);
  }
  return parts.length === 0 ? null : `SET ${parts.join(", ")}`;
}
