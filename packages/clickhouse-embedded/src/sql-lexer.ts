/**
 * A token of ClickHouse SQL. `quoted` is an identifier in quotes, `open` one that never ended (string, quoted name, comment or heredoc):
 * it is the last token, and what the engine makes of the rest is not known.
 */
export type Token = {
  readonly kind: "word" | "number" | "string" | "quoted" | "punct" | "open";
  readonly start: number;
  readonly end: number;
  /** As written; of a quoted identifier the text between the quotes, escapes resolved. */
  readonly text: string;
};

// The engine's own list of space. Anything else outside ASCII is no part of a word: the gate refuses it, so that no difference in reading it
// can hide a word.
const space = /[ \t\n\r\f\v\u0085\u00a0\u1680\u180e\u2000-\u200d\u2028\u2029\u202f\u205f\u2060\u3000\ufeff]+/y;
const word = /[A-Za-z_$][A-Za-z0-9_$]*/y;
const number = /[0-9][A-Za-z0-9_]*(?:\.[0-9][A-Za-z0-9_]*)?/y;
const heredoc = /\$\w*\$/y;
const lineComment = /(?:--|#!|# )[^\n]*/y;
const closing: Readonly<Record<string, string>> = {
  "'": "'",
  '"': '"',
  "`": "`",
  "\u2018": "\u2019",
  "\u201c": "\u201d",
};

const matchAt = (pattern: RegExp, sql: string, at: number): string | null => {
  pattern.lastIndex = at;
  return pattern.exec(sql)?.[0] ?? null;
};

/** Where a quoted thing that starts at `at` ends (past its closing quote), or -1. Backslash escapes; a doubled quote is a quote. */
function quoteEnd(sql: string, at: number): number {
  const close = closing[sql.charAt(at)];
  for (let i = at + 1; i < sql.length; i++) {
    const c = sql.charAt(i);
    if (c === "\\") i++;
    else if (c === close) {
      if (sql.charAt(i + 1) !== close) return i + 1;
      i++;
    }
  }
  return -1;
}

const unquoted = (text: string, quote: string): string =>
  text.replaceAll(/\\(.)|(["`\u201d])\2/gs, (both: string, escaped: string | undefined, doubled: string | undefined) =>
    doubled === undefined ? (escaped ?? both) : doubled === quote ? doubled : both,
  );

/** The next token at or after `at`, or null at the end. Comments and space are skipped. */
export function nextToken(sql: string, at: number): Token | null {
  for (;;) {
    const skipped = matchAt(space, sql, at) ?? matchAt(lineComment, sql, at);
    if (skipped !== null) {
      at += skipped.length;
    } else if (sql.startsWith("/*", at)) {
      const end = sql.indexOf("*/", at + 2);
      if (end < 0) return { kind: "open", start: at, end: sql.length, text: sql.slice(at) };
      at = end + 2;
    } else break;
  }
  if (at >= sql.length) return null;
  const token = (kind: Token["kind"], end: number, text = sql.slice(at, end)): Token => ({
    kind,
    start: at,
    end,
    text,
  });
  const c = sql.charAt(at);
  if (c in closing) {
    const end = quoteEnd(sql, at);
    if (end < 0) return token("open", sql.length);
    if (c === "'" || c === "\u2018") return token("string", end);
    return token("quoted", end, unquoted(sql.slice(at + 1, end - 1), closing[c] ?? c));
  }
  const tag = c === "$" ? matchAt(heredoc, sql, at) : null;
  if (tag !== null) {
    const end = sql.indexOf(tag, at + tag.length);
    if (end >= 0) return token("string", end + tag.length);
  }
  const w = matchAt(word, sql, at);
  if (w !== null) return token("word", at + w.length);
  const n = matchAt(number, sql, at);
  if (n !== null) return token("number", at + n.length);
  return token("punct", at + 1);
}

/** All tokens of a text. */
export function tokens(sql: string): Token[] {
  const all: Token[] = [];
  for (let t = nextToken(sql, 0); t !== null; t = nextToken(sql, t.end)) all.push(t);
  return all;
}

/** Whether a token is this keyword (upper case), unquoted. */
export const isWord = (token: Token | null | undefined, keyword: string): boolean =>
  token?.kind === "word" && token.text.toUpperCase() === keyword;
