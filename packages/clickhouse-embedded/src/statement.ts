import { QueryError } from "./clickhouse-errors.js";
import type { RequestBody } from "./request-body.js";
import { checkStatement, type GateContext } from "./sql-gate.js";
import { isWord, tokens } from "./sql-lexer.js";
import { splitInsert, splitSelect, type DataInsert } from "./sql-split.js";

/** What a request wants done, after the gate. */
export type Statement =
  | { readonly kind: "insert"; readonly insert: DataInsert; readonly data: AsyncIterable<Buffer> }
  | { readonly kind: "select"; readonly sql: string; readonly select: string; readonly format: string | null }
  | { readonly kind: "other"; readonly sql: string; readonly format: string | null };

const headBytes = 262_144;

/** The text of an INSERT up to its data, or the whole text of anything else; for the log. */
export const textOf = (s: Statement): string =>
  s.kind === "insert" ? `${s.insert.head}FORMAT ${s.insert.format}` : s.sql;

/**
 * Reads the statement of a request: the `query` field, then the body. An INSERT with data is split where its data starts; the data is not
 * read here. Everything else must be complete within `max_query_size` (256 KiB unless the request says more).
 */
export async function readStatement(
  query: string,
  body: RequestBody,
  maxQuerySize: number,
  context: GateContext,
): Promise<Statement> {
  const early = query === "" ? null : splitInsert(query);
  if (early !== null)
    return gated(early, query, prefixed(Buffer.from(query.slice(early.dataAt)), body.from(0)), context);
  const limit = Math.max(headBytes, maxQuerySize);
  const head = await body.head(limit);
  const lead = query === "" || head.bytes.length === 0 ? query : `${query}\n`;
  const text = lead + head.bytes.toString("utf8");
  const late = splitInsert(text);
  if (late !== null) {
    const skip = Buffer.byteLength(text.slice(0, late.dataAt)) - Buffer.byteLength(lead);
    if (skip >= 0 && Buffer.from(text.slice(lead.length, late.dataAt)).equals(head.bytes.subarray(0, skip))) {
      return gated(late, text, body.from(skip), context);
    }
  }
  if (!head.complete || head.bytes.length > limit) {
    throw QueryError.of(62, `Max query size exceeded (max_query_size = ${limit} bytes).`);
  }
  if (!Buffer.from(text).subarray(Buffer.byteLength(lead)).equals(head.bytes)) {
    throw QueryError.of(
      36,
      "The query text is not valid UTF-8; send other bytes as data of an INSERT, or as parameters.",
    );
  }
  if (text.trim() === "") throw QueryError.of(62, "Empty query.");
  const all = tokens(text);
  checkStatement(all, text, context);
  const select = splitSelect(all, text);
  if (select !== null) return { kind: "select", sql: text, select: select.sql, format: select.format };
  const at = all.findLastIndex((t) => isWord(t, "FORMAT"));
  const name = at < 0 ? undefined : all[at + 1];
  return { kind: "other", sql: text, format: name?.kind === "word" ? name.text : null };
}

function gated(insert: DataInsert, text: string, data: AsyncIterable<Buffer>, context: GateContext): Statement {
  const head = text.slice(0, insert.head.length);
  checkStatement(tokens(head), head, context);
  return { kind: "insert", insert, data };
}

async function* prefixed(first: Buffer, rest: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  if (first.length > 0) yield first;
  yield* rest;
}
