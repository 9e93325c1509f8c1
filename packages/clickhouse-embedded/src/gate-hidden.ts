import { dictionaryKeys, outsideFunctions } from "./gate-lists.js";
import type { Token } from "./sql-lexer.js";

// Places where the engine reads SQL out of a string, or calls a function that is only named: what stands there the gate cannot see, so the
// places themselves are closed. Found by trying; `file()` cannot be revoked in the engine, so each of them would read any file.

const isPunct = (t: Token | undefined, text: string): boolean => t?.kind === "punct" && t.text === text;
const lower = (t: Token | undefined): string =>
  t?.kind === "word" || t?.kind === "quoted" ? t.text.toLowerCase() : "";

/** Table functions that take columns as a string, in which a DEFAULT is an expression. */
const takesColumns = new Set(["null", "values", "generaterandom", "input", "fuzzjson"]);
const columnsWithExpressions = /\\|\b(?:default|materialized|alias|ephemeral)\b/i;

/** What is hidden at this token, in words for the error, or null. `verb` is the first word of the statement. */
export function hiddenAt(all: readonly Token[], i: number, verb: string): string | null {
  const name = lower(all[i]);
  if (!isPunct(all[i + 1], "(")) return outsideFunctions.has(name) ? calledByName(all, i, name) : null;
  if (name === "format") return formatFunction(all, i);
  if (takesColumns.has(name)) return columnsOf(all, i, name, verb);
  return null;
}

/** `arrayMap(file, …)` and `* APPLY file`: a function without its parentheses. A column of that name is fine in other places. */
function calledByName(all: readonly Token[], i: number, name: string): string | null {
  const applied = lower(all[i - 1]) === "apply" || (isPunct(all[i - 1], "(") && lower(all[i - 2]) === "apply");
  const mapped = isPunct(all[i - 1], "(") && isPunct(all[i + 1], ",") && /^(?:array|map)/.test(lower(all[i - 2]));
  return applied || mapped ? `${name} as the function of ${lower(all[i - 1]) || lower(all[i - 2])}` : null;
}

/** `format('{}', …)` is text; `format(CSV, …)` is a table, whose columns and values may be SQL. */
function formatFunction(all: readonly Token[], i: number): string | null {
  const first = all[i + 2];
  if (first?.kind === "string" && first.text.includes("{")) return null;
  if (first === undefined || lower(first) === "" || lower(first) === "values") {
    return "format() of anything but a pattern or the plain name of a format other than Values";
  }
  const [two, three] = [all[i + 4], all[i + 6]];
  const plain =
    isPunct(all[i + 3], ",") &&
    two?.kind === "string" &&
    (isPunct(all[i + 5], ")") || (isPunct(all[i + 5], ",") && three?.kind === "string" && isPunct(all[i + 7], ")")));
  if (!plain) return "format() with arguments that are not plain strings";
  return three !== undefined && isPunct(all[i + 5], ",") && columnsWithExpressions.test(two.text)
    ? "format() with columns that have expressions"
    : null;
}

function columnsOf(all: readonly Token[], i: number, name: string, verb: string): string | null {
  const first = all[i + 2];
  if (first?.kind === "string" && columnsWithExpressions.test(first.text)) {
    return `${name}() with columns that have expressions`;
  }
  // values() in a SELECT evaluates no default, and its first argument may be a row; a table made of it keeps them.
  if (name === "values" && !/^(?:create|attach|replace)$/.test(verb)) return null;
  const ends = isPunct(all[i + 3], ",") || isPunct(all[i + 3], ")");
  const plain = isPunct(first, ")") || ((first?.kind === "string" || first?.kind === "number") && ends);
  return plain ? null : `${name}() with computed columns`;
}

/** A source CLICKHOUSE(…) that says more than a table, from its parenthesis at `open` on: `QUERY '…'` and `WHERE '…'` are SQL. */
export function hiddenInSource(all: readonly Token[], open: number): string | null {
  for (let j = open + 1; !isPunct(all[j], ")"); j += 2) {
    const key = lower(all[j]);
    if (!dictionaryKeys.has(key))
      return `a dictionary with ${key === "" ? "an odd key" : key.toUpperCase()} in its source`;
    const value = all[j + 1];
    if (value === undefined || value.kind === "punct" || value.kind === "open") {
      return `a dictionary with a ${key.toUpperCase()} that is not plain`;
    }
  }
  return null;
}
