import { RequestError } from "../errors.js";
import type { JsonHandling } from "./vendor.js";

/** A bare integer of 16 digits or more after a separator; only such a text is looked at closely. */
const suspicious = /(?:^|[:,[\s])-?\d{16,}/;
const numbers = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const [quote, backslash] = ['"', "\\"].map((c) => c.charCodeAt(0));

/** The index after the string that begins at `at`. No regular expression: on a string of many MB it runs out of stack. */
function afterString(json: string, at: number): number {
  let end = at + 1;
  while (end < json.length && json.charCodeAt(end) !== quote) end += json.charCodeAt(end) === backslash ? 2 : 1;
  return end + 1;
}

/** The first integer literal in a JSON text that a JavaScript number would change, or null. */
export function changedInteger(json: string): string | null {
  if (!suspicious.test(json)) return null;
  for (let at = 0; at < json.length;) {
    const string = json.indexOf('"', at);
    const end = string === -1 ? json.length : string;
    for (const [token] of json.slice(at, end).matchAll(numbers)) {
      // What reads back the same lost nothing; floats of this size are printed in their shortest form and do.
      if (token.length >= 16 && /^-?\d+$/.test(token) && String(Number(token)) !== token) return token;
    }
    at = afterString(json, end);
  }
  return null;
}

const quoteBigints = (_key: string, value: unknown): unknown => (typeof value === "bigint" ? value.toString() : value);

/**
 * JSON handling that keeps 64-bit integers whole: reading refuses a bare integer that would be changed, writing sends a
 * bigint as the quoted decimal that ClickHouse takes. A parser or serialiser of the caller's own is left as it is.
 */
export function exactIntegers(own: JsonHandling): JsonHandling {
  const { parse, stringify } = JSON;
  const read = (text: string): unknown => {
    const changed = changedInteger(text);
    if (changed === null) return own.parse(text);
    throw new RequestError(
      `the answer holds the bare integer ${changed}, which a JavaScript number cannot hold; ` +
        `leave output_format_json_quote_64bit_integers at 1, or cast the column with toString()`,
      { outcome: "refused" },
    );
  };
  const write = (value: unknown): string => {
    try {
      return own.stringify(value);
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      return stringify(value, quoteBigints);
    }
  };
  return {
    parse: own.parse === parse ? read : own.parse.bind(own),
    stringify: own.stringify === stringify ? write : own.stringify.bind(own),
  };
}
