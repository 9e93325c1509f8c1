import { isWord, nextToken, type Token } from "./sql-lexer.js";

/** An INSERT that carries data: everything before the data, and where the data starts. */
export type DataInsert = {
  /** `INSERT INTO t (a, b) SETTINGS …`, without the FORMAT or VALUES clause. */
  readonly head: string;
  /** Where `SETTINGS` starts within head, or its length: FROM INFILE goes there. */
  readonly settingsAt: number;
  readonly format: string;
  /** Offset of the first byte of data in the text. */
  readonly dataAt: number;
};

const opens = (t: Token): boolean => t.kind === "punct" && "([{".includes(t.text);
const closes = (t: Token): boolean => t.kind === "punct" && ")]}".includes(t.text);

/**
 * Finds the data of an INSERT (`… FORMAT X <data>`, `… VALUES <data>`), or null when the text is anything else (INSERT … SELECT too).
 * Only the part before the data is looked at, so data of any kind and size may follow.
 */
export function splitInsert(sql: string): DataInsert | null {
  let t = nextToken(sql, 0);
  if (!isWord(t, "INSERT")) return null;
  const next = (): Token | null => (t === null ? null : (t = nextToken(sql, t.end)));
  next();
  if (isWord(t, "INTO")) next();
  if (isWord(t, "TABLE")) next();
  if (isWord(t, "FUNCTION")) next();
  // The target's name is never a keyword, even when it is spelled like one.
  next();
  let depth = 0;
  let settingsAt = -1;
  for (; t !== null && t.kind !== "open"; next()) {
    if (opens(t)) depth++;
    else if (closes(t)) depth--;
    if (depth === 0 && t.kind === "punct" && t.text === ";") return null;
    if (depth > 0 || t.kind !== "word") continue;
    const found = (format: string, from: Token, dataAt: number): DataInsert => {
      const head = sql.slice(0, from.start);
      return { head, settingsAt: settingsAt < 0 ? head.length : settingsAt, format, dataAt };
    };
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
        const keyword = t;
        const name = next();
        if (name?.kind !== "word" && name?.kind !== "quoted") return null;
        // A number of spaces and one line end belong to the statement, not to the data.
        const gap = /^[ \t\f]*(?:\r?\n)?/.exec(sql.slice(name.end, name.end + 4096))?.[0].length ?? 0;
        return found(name.text, keyword, name.end + gap);
      }
    }
    if (t === null) break;
  }
  return null;
}

/** A read whose result can be written to a file by the engine: the text without its FORMAT clause, and the format if it named one. */
export type Select = { readonly sql: string; readonly format: string | null };

/**
 * Splits `SELECT … [FORMAT x] [SETTINGS …]`. Null for all other statements, whose results are small. `INTO OUTFILE` must stand before
 * FORMAT, so the clause is taken out and the format is handed to the engine beside the text.
 */
export function splitSelect(all: readonly Token[], sql: string): Select | null {
  const first = all.find((t) => !(t.kind === "punct" && t.text === "("));
  if (!(isWord(first, "SELECT") || isWord(first, "WITH") || isWord(first, "FROM"))) return null;
  let end = all.length;
  while (end > 0 && all[end - 1]?.kind === "punct" && all[end - 1]?.text === ";") end--;
  const last = all[end - 1];
  if (last === undefined || last.kind === "open") return null;
  let depth = 0;
  let clause = -1;
  for (let i = 0; i < end - 1; i++) {
    const t = all[i];
    if (t === undefined) break;
    if (opens(t)) depth++;
    else if (closes(t)) depth--;
    else if (depth === 0 && isWord(t, "FORMAT") && endsStatement(all, i + 2, end)) clause = i;
  }
  const keyword = all[clause];
  const name = all[clause + 1];
  if (keyword === undefined || name === undefined) return { sql: sql.slice(0, last.end), format: null };
  if (name.kind !== "word" && name.kind !== "quoted") return null;
  // Spaces keep every other character where it was, so that positions in error messages stay right.
  const blank = " ".repeat(name.end - keyword.start);
  return { sql: sql.slice(0, keyword.start) + blank + sql.slice(name.end, last.end), format: name.text };
}

const endsStatement = (all: readonly Token[], at: number, end: number): boolean =>
  at >= end || isWord(all[at], "SETTINGS");
