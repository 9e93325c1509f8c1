import { isInsert } from "./sql-gate.js";
import { isWord, nextToken, type Token } from "./sql-lexer.js";

/** An INSERT that carries data: everything before the data, and where the data starts. */
export type DataInsert = {
  /** `INSERT INTO t (a, b) SETTINGS …`, without the FORMAT or VALUES clause. */
  readonly head: string;
  /** Where `SETTINGS` starts within head, or its length: FROM INFILE goes there. */
  readonly settingsAt: number;
  readonly format: string;
  /** Offset of the first character of data in the text. */
  readonly dataAt: number;
};

const isPunct = (t: Token | null | undefined, among: string): boolean => t?.kind === "punct" && among.includes(t.text);
const opens = (t: Token): boolean => isPunct(t, "([{");
const closes = (t: Token): boolean => isPunct(t, ")]}");

/** The first token after the name of the table (`INTO [TABLE] [FUNCTION] db.name`), which is never a keyword even when spelled like one. */
function afterTarget(sql: string, insert: Token): Token | null {
  let t = nextToken(sql, insert.end);
  for (const keyword of ["INTO", "TABLE", "FUNCTION"]) {
    if (t !== null && isWord(t, keyword)) t = nextToken(sql, t.end);
  }
  while (t !== null) {
    // A name, or a {name:Identifier}; then perhaps a dot and the next.
    if (isPunct(t, "{")) while (t !== null && !isPunct(t, "}")) t = nextToken(sql, t.end);
    if (t !== null) t = nextToken(sql, t.end);
    if (t === null || !isPunct(t, ".")) return t;
    t = nextToken(sql, t.end);
  }
  return null;
}

/**
 * Finds the data of an INSERT (`… FORMAT X <data>`, `… VALUES <data>`), or null when the text is anything else (INSERT … SELECT too).
 * Only the part before the data is looked at, so data of any kind and size may follow.
 */
export function splitInsert(sql: string): DataInsert | null {
  const insert = nextToken(sql, 0);
  if (insert === null || !isWord(insert, "INSERT")) return null;
  let depth = 0;
  let settingsAt = -1;
  const found = (format: string, from: Token, dataAt: number): DataInsert => {
    const head = sql.slice(0, from.start);
    return { head, settingsAt: settingsAt < 0 ? head.length : settingsAt, format, dataAt };
  };
  for (let t = afterTarget(sql, insert); t !== null && t.kind !== "open"; t = nextToken(sql, t.end)) {
    if (opens(t)) depth++;
    else if (closes(t)) depth--;
    else if (depth === 0 && isPunct(t, ";")) return null;
    if (depth > 0 || t.kind !== "word") continue;
    switch (t.text.toUpperCase()) {
      case "SELECT":
      case "WITH":
      case "FROM":
      case "WATCH":
        return null;
      case "SETTINGS":
        settingsAt = t.start;
        break;
      case "VALUES":
        return found("Values", t, t.end);
      case "FORMAT": {
        const name = nextToken(sql, t.end);
        if (name?.kind !== "word" && name?.kind !== "quoted") return null;
        // Spaces and one line end after the name belong to the statement, not to the data.
        const gap = /^[ \t\f]*(?:\r?\n)?/.exec(sql.slice(name.end, name.end + 4096))?.[0].length ?? 0;
        return found(name.text, t, name.end + gap);
      }
    }
  }
  return null;
}

/** Whether something other than space follows a semicolon in the data of VALUES. The engine would drop it without a word. */
export function hasTextAfterValues(data: string): boolean {
  let ended = false;
  for (let t = nextToken(data, 0); t !== null; t = nextToken(data, t.end)) {
    if (ended) return true;
    if (isPunct(t, ";")) ended = true;
  }
  return false;
}

/** A read whose result can be written to a file by the engine: the text without its FORMAT clause, and the format if it named one. */
export type Select = { readonly sql: string; readonly format: string | null };

/**
 * Splits `SELECT … [FORMAT x] [SETTINGS …]`. Null for all other statements, whose results are small. `INTO OUTFILE` must stand before
 * FORMAT, so the clause is taken out and the format is handed to the engine beside the text.
 */
export function splitSelect(all: readonly Token[], sql: string): Select | null {
  const first = all.find((t) => !isPunct(t, "("));
  if (!["SELECT", "WITH", "FROM"].some((verb) => isWord(first, verb)) || isInsert(all)) return null;
  let end = all.length;
  while (isPunct(all[end - 1], ";")) end--;
  const last = all[end - 1];
  if (last === undefined || last.kind === "open") return null;
  const at = formatClause(all, end);
  const keyword = all[at];
  const name = all[at + 1];
  if (keyword === undefined || name === undefined) return { sql: sql.slice(0, last.end), format: null };
  if (name.kind !== "word" && name.kind !== "quoted") return null;
  // Spaces keep every other character where it was, so that positions in error messages stay right.
  const blank = " ".repeat(name.end - keyword.start);
  return { sql: sql.slice(0, keyword.start) + blank + sql.slice(name.end, last.end), format: name.text };
}

/** Index of the FORMAT clause that ends the statement (SETTINGS may follow), or -1. */
export function formatClause(all: readonly Token[], end = all.length): number {
  let depth = 0;
  let clause = -1;
  for (const [i, t] of all.entries()) {
    if (i >= end - 1) break;
    if (opens(t)) depth++;
    else if (closes(t)) depth--;
    else if (depth === 0 && isWord(t, "FORMAT") && (i + 2 >= end || isWord(all[i + 2], "SETTINGS"))) clause = i;
  }
  return clause;
}
