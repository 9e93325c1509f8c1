import { QueryError } from "./clickhouse-errors.js";
import { isWord, type Token } from "./sql-lexer.js";

/**
 * The ids of running queries. The engine gives queries ids of its own, so ours travel in log_comment: after the caller's own comment, if
 * there is one, as the last word.
 */
export class QueryIds {
  readonly #running = new Set<string>();

  /** Takes an id until `leave`. 216 when a query with it runs, as ClickHouse has it. */
  enter(queryId: string): { leave(): void } {
    if (this.#running.has(queryId)) {
      throw QueryError.of(216, `Query with id = ${queryId} is already running.`);
    }
    this.#running.add(queryId);
    return { leave: () => void this.#running.delete(queryId) };
  }
}

/** The log_comment of a query. Space within an id is written as `_`, so that the id stays one word. */
export function markOf(queryId: string, comment: string | undefined): string {
  const id = queryId.replace(/\s/g, "_");
  return comment === undefined || comment === "" ? id : `${comment} ${id}`;
}

/** In KILL QUERY, `query_id` is made to mean the ids that callers know. Other statements stay as they are. */
export function withOurIds(all: readonly Token[], sql: string): string {
  if (!isWord(all[0], "KILL") || !isWord(all[1], "QUERY")) return sql;
  let text = sql;
  for (const t of [...all].reverse()) {
    if ((t.kind !== "word" && t.kind !== "quoted") || t.text.toLowerCase() !== "query_id") continue;
    text = `${text.slice(0, t.start)}(splitByChar(' ', Settings['log_comment'])[-1])${text.slice(t.end)}`;
  }
  return text;
}
