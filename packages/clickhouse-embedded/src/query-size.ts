import { QueryError } from "./clickhouse-errors.js";

/** The setting that bounds the text of a query, in bytes. */
export const sizeSetting = "max_query_size";

/** Its default, as a ClickHouse server has it. */
export const queryBytesDefault = 262_144;

/** More than this server ever adds to a text: where a result goes or where data lies, which is a path, with its quotes escaped. */
const roomBytes = 16_384;

/** The bytes that a value of the setting allows. 0 is no limit; what is no plain number (`1M`) is left to the engine. */
export const queryLimit = (value: string): number => (/^[0-9]*[1-9][0-9]*$/.test(value) ? Number(value) : Infinity);

/**
 * The limit that the engine is to get in place of `value`, or null when that leaves room enough for what this server adds to the text. The
 * caller's own text is held to `value` here: a QueryError 62 when it is longer.
 */
export function engineLimit(value: string, textBytes: number): string | null {
  const limit = queryLimit(value);
  if (textBytes > limit) throw queryTooLong(limit);
  return textBytes + roomBytes > limit ? String(limit + roomBytes) : null;
}

/** The error of a text that is longer than its limit. */
export const queryTooLong = (limit: number): QueryError =>
  QueryError.of(62, `Max query size exceeded (max_query_size = ${limit} bytes; the setting can be increased).`);
