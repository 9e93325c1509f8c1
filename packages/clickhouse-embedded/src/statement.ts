import { QueryError } from "./clickhouse-errors.js";
import { withOurIds } from "./query-ids.js";
import { queryBytesDefault, queryTooLong } from "./query-size.js";
import type { RequestBody } from "./request-body.js";
import { checkStatement, checkTokens, isInsert, type GateContext } from "./sql-gate.js";
import { tokens } from "./sql-lexer.js";
import { formatClause, hasTextAfterValues, splitInsert, splitSelect, type DataInsert } from "./sql-split.js";

/** What a request wants done, after the gate. */
export type Statement =
  | {
      readonly kind: "insert";
      readonly insert: DataInsert;
      readonly data: AsyncIterable<Buffer>;
      /** The data is VALUES that the gate has not seen to their end: the engine must not run expressions in them. */
      readonly literalsOnly: boolean;
    }
  | { readonly kind: "select"; readonly sql: string; readonly select: string; readonly format: string | null }
  | { readonly kind: "insert-select"; readonly sql: string }
  | { readonly kind: "other"; readonly sql: string; readonly engineSql: string; readonly format: string | null };

/** The text of an INSERT up to its data, or the whole text of anything else; for the log. */
export const textOf = (s: Statement): string =>
  s.kind === "insert" ? `${s.insert.head.trimEnd()} FORMAT ${s.insert.format}` : s.sql;

/** The bytes of it that `max_query_size` bounds: not the data of an INSERT. */
export const textBytes = (s: Statement): number => Buffer.byteLength(s.kind === "insert" ? s.insert.head : s.sql);

/**
 * Reads the statement of a request: the `query` field, then the body. An INSERT with data is split where its data starts; the data is not
 * read here. Everything else must be complete within 256 KiB, or `max_query_size` where the request says more; a smaller one counts later.
 */
export async function readStatement(
  query: string,
  body: RequestBody,
  maxQuerySize: number,
  context: GateContext,
): Promise<Statement> {
  const early = query === "" ? null : splitInsert(query);
  if (early !== null) return readInsert(early, query, body, 0, context);
  const limit = Math.max(queryBytesDefault, maxQuerySize);
  const head = await body.head(limit);
  const lead = query === "" || head.bytes.length === 0 ? query : `${query}\n`;
  const text = lead + head.bytes.toString("utf8");
  const valid = (upTo: number): boolean => {
    const read = Buffer.from(text.slice(lead.length, upTo));
    return read.equals(head.bytes.subarray(0, read.length));
  };
  const late = splitInsert(text);
  if (late !== null && late.dataAt >= lead.length && valid(late.dataAt)) {
    return readInsert(late, lead, body, Buffer.byteLength(text.slice(lead.length, late.dataAt)), context);
  }
  if (!head.complete || head.bytes.length > limit) {
    throw queryTooLong(limit);
  }
  if (!valid(text.length)) {
    throw QueryError.of(
      36,
      "The query text is not valid UTF-8; send other bytes as data of an INSERT, or as parameters.",
    );
  }
  return readText(text, context);
}

function readText(text: string, context: GateContext): Statement {
  const all = tokens(text);
  if (all.length === 0) throw QueryError.of(62, "Empty query.");
  checkStatement(all, text, context);
  if (isInsert(all)) return { kind: "insert-select", sql: text };
  const select = splitSelect(all, text);
  if (select !== null) return { kind: "select", sql: text, select: select.sql, format: select.format };
  const clause = formatClause(all);
  return {
    kind: "other",
    sql: text,
    engineSql: withOurIds(all, text),
    format: clause < 0 ? null : (all[clause + 1]?.text ?? null),
  };
}

/** The data is what follows in the query field (`lead`), then the body from `skip` on. */
async function readInsert(
  insert: DataInsert,
  lead: string,
  body: RequestBody,
  skip: number,
  context: GateContext,
): Promise<Statement> {
  checkStatement(tokens(insert.head), insert.head, context);
  const first = Buffer.from(lead.slice(insert.dataAt));
  // The engine reads names of formats in any case.
  const literalsOnly = insert.format.toLowerCase() === "values" && !(await checkValues(first, body, skip));
  return { kind: "insert", insert, data: concat(first, body.from(skip)), literalsOnly };
}

/** VALUES may be expressions, which the engine runs, so they go through the gate. Returns whether all of them did. */
async function checkValues(first: Buffer, body: RequestBody, skip: number): Promise<boolean> {
  const head = await body.head(queryBytesDefault);
  const text = first.toString("utf8") + head.bytes.subarray(skip).toString("utf8");
  if (hasTextAfterValues(text)) {
    throw QueryError.of(
      62,
      "Syntax error (Multi-statements are not allowed): text follows the semicolon after VALUES.",
    );
  }
  if (!head.complete) return false;
  const all = tokens(text);
  checkTokens(all, text);
  return all.at(-1)?.kind !== "open";
}

async function* concat(first: Buffer, rest: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  if (first.length > 0) yield first;
  yield* rest;
}
