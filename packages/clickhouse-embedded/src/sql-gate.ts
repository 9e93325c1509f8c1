import { QueryError } from "./clickhouse-errors.js";
import { hiddenAt, hiddenInSource } from "./gate-hidden.js";
import {
  dictionarySources,
  fileSettings,
  fixedDatabases,
  reachesOutside,
  readVerbs,
  sqlSettings,
  systemVerbs,
  valuesSettings,
} from "./gate-lists.js";
import { isWord, type Token } from "./sql-lexer.js";

/** What the gate must know about the request besides its text. */
export type GateContext = {
  readonly inSession: boolean;
  readonly readonly: boolean;
  readonly params: ReadonlyMap<string, string>;
};

const wordOf = (t: Token | undefined): string => (t?.kind === "word" ? t.text.toLowerCase() : "");
const nameOf = (t: Token | undefined): string => (t?.kind === "quoted" ? t.text.toLowerCase() : wordOf(t));
const isPunct = (t: Token | undefined, text: string): boolean => t?.kind === "punct" && t.text === text;

/**
 * Refuses what this server must not run, before the engine sees it (497), and what the engine would accept and not do (48). The number of
 * statements is counted by the engine's own parser elsewhere; this gate looks at words only, so it may refuse a harmless statement that
 * uses one of the names in an odd place, and says how to write it.
 */
export function checkStatement(all: readonly Token[], sql: string, context: GateContext): void {
  const first = wordOf(all[0]);
  const second = wordOf(all[1]);
  checkTokens(all, sql);
  switch (first) {
    case "set":
    case "use":
      if (!context.inSession) refuseOutsideSession(first);
      break;
    case "system":
      checkSystem(second, wordOf(all[2]));
      break;
    case "kill":
      if (all.some((t) => isWord(t, "SYNC"))) {
        throw QueryError.of(48, "KILL … SYNC would never return on the embedded engine; use KILL … ASYNC.");
      }
      break;
    case "drop":
    case "detach":
    case "rename":
      if (second === "database") checkDatabases(all, context.params);
      break;
    case "attach":
      if (all.some((t, i) => isWord(t, "FROM") && all[i + 1]?.kind === "string")) refuse("ATTACH … FROM 'path'");
      break;
    case "backup":
    case "restore":
      throw QueryError.of(
        48,
        `${first.toUpperCase()} is not supported on an embedded server; stop it and copy the data directory.`,
      );
    case "insert":
      if (all.some((t, i) => nameOf(t) === "input" && isPunct(all[i + 1], "("))) {
        throw QueryError.of(
          48,
          "INSERT … SELECT … FROM input() is not supported on an embedded server; insert into a table and select from it.",
        );
      }
      break;
  }
  const verb = wordOf(all.find((t) => !isPunct(t, "(")));
  if (context.readonly && (!readVerbs.has(verb) || isInsert(all))) {
    throw QueryError.of(
      164,
      "Cannot execute query in readonly mode. For queries over HTTP, a method other than POST implies readonly; use POST for queries that change something.",
    );
  }
}

/** The part of {@link checkStatement} that holds for any SQL, such as the expressions among the values of an INSERT. */
export function checkTokens(all: readonly Token[], sql: string): void {
  let settings = wordOf(all[0]) === "set";
  for (const [i, t] of all.entries()) {
    checkToken(all, i, sql);
    settings ||= isWord(t, "SETTINGS");
    if (!settings) continue;
    const name = nameOf(t);
    // A setting alone means that it is on.
    if (isPunct(all[i + 1], "=")) checkWrittenSetting(name, all[i + 2]?.text ?? "");
    else if (valuesSettings.has(name)) checkWrittenSetting(name, "1");
  }
}

/** Whether a statement is an INSERT, also after WITH. */
export function isInsert(all: readonly Token[]): boolean {
  if (isWord(all[0], "INSERT")) return true;
  if (!isWord(all[0], "WITH")) return false;
  let depth = 0;
  return all.some((t) => {
    if (isPunct(t, "(")) depth++;
    if (isPunct(t, ")")) depth--;
    return depth === 0 && isWord(t, "INSERT");
  });
}

function refuseOutsideSession(verb: string): never {
  throw QueryError.of(
    48,
    `${verb.toUpperCase()} outside a session would last for this one request only; send clickhouse_settings or database with each request, or use session_id.`,
  );
}

function checkSystem(verb: string, object: string): void {
  if (systemVerbs.has(verb) && object !== "listen") return;
  throw QueryError.of(497, `SYSTEM ${verb.toUpperCase()} is not allowed on an embedded server; stop() ends it.`);
}

/** A name may be written, or come as a parameter of type Identifier: of this request, since what a session knows is not seen here. */
function checkDatabases(all: readonly Token[], params: ReadonlyMap<string, string>): void {
  for (const [i, t] of all.entries()) {
    const given = isPunct(t, "{") ? params.get(all[i + 1]?.text ?? "") : nameOf(t);
    if (given === undefined) {
      throw QueryError.of(
        456,
        `Substitution \`${all[i + 1]?.text ?? ""}\` is not set in this request; a database is not dropped, detached or renamed by a parameter of its session.`,
      );
    }
    const name = given.toLowerCase();
    if (fixedDatabases.has(name)) {
      throw QueryError.of(
        497,
        `The database ${name} cannot be dropped, detached or renamed on an embedded server; drop its tables instead.`,
      );
    }
  }
}

function checkToken(all: readonly Token[], i: number, sql: string): void {
  const t = all[i];
  if (t === undefined) return;
  const before = wordOf(all[i - 1]);
  if (t.kind === "punct" && /[^\x21-\x7e]/.test(t.text)) {
    throw QueryError.of(
      62,
      `Syntax error: unrecognized character U+${codePoint(t.text)} at position ${t.start + 1}, outside quotes.`,
    );
  }
  if (t.kind === "open" && /outfile|infile/i.test(sql.slice(t.start)))
    refuse("OUTFILE or INFILE after a quote that never ends");
  const word = wordOf(t);
  if ((word === "outfile" && before === "into") || (word === "infile" && before === "from"))
    refuse(`${before} ${word}`.toUpperCase());
  const name = nameOf(t);
  const called = isPunct(all[i + 1], "(");
  if (called && isTableName(all, i)) return;
  if (called && reachesOutside.has(name)) refuse(`${name}()`);
  const hidden = hiddenAt(all, i, wordOf(all[0]));
  if (hidden !== null) refuse(hidden);
  if (called && name === "source" && /^(?:create|attach|replace)$/.test(wordOf(all[0]))) checkSource(all, i);
}

const codePoint = (text: string): string => (text.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");

function checkWrittenSetting(name: string, value: string): void {
  if (valuesSettings.has(name)) {
    throw QueryError.of(
      48,
      `${name} is not a statement's to say on an embedded server; send the values as JSONEachRow, or INSERT … SELECT.`,
    );
  }
  if (name === "log_comment") {
    throw QueryError.of(
      48,
      "log_comment cannot be written in a statement on an embedded server, which finds queries by it; send it with the request (clickhouse_settings).",
    );
  }
  checkSetting(name, value);
}

/** `INSERT INTO file (a)` and `CREATE TABLE url (…)` name tables, and so does `db.file (…)`. `DESCRIBE TABLE file(…)` does not. */
function isTableName(all: readonly Token[], i: number): boolean {
  if (isPunct(all[i - 1], ".")) return true;
  const before = wordOf(all[i - 1]);
  const verb = wordOf(all[0]);
  return (
    (before === "into" && verb === "insert") || (before === "table" && /^(?:insert|create|attach|replace)$/.test(verb))
  );
}

function checkSource(all: readonly Token[], i: number): void {
  const source = nameOf(all[i + 2]);
  if (!dictionarySources.has(source)) refuse(`a dictionary with SOURCE(${source}(…))`);
  const hidden = source === "clickhouse" && isPunct(all[i + 3], "(") ? hiddenInSource(all, i + 3) : null;
  if (hidden !== null) refuse(hidden);
}

/** Refuses values of settings that name files or hold SQL, or that the engine would accept and not honour. */
export function checkSetting(name: string, value: string): void {
  const bare = value.replace(/^'|'$/g, "");
  if (name === "insert_quorum" && !["", "0", "1"].includes(bare)) {
    throw QueryError.of(
      48,
      `insert_quorum = ${bare} needs replicas, and this server is one node; use insert_quorum = 0 (topology "single").`,
    );
  }
  if (fileSettings.has(name) && bare !== "") refuse(`the setting ${name}, which names a file,`);
  if (sqlSettings.has(name) && bare !== "" && bare !== "{}") refuse(`the setting ${name}, which is SQL in a string,`);
  if (name === "dialect" && bare !== "clickhouse")
    refuse(`the setting dialect = ${bare}: other languages are not looked through; it`);
}

function refuse(what: string): never {
  throw QueryError.of(
    497,
    `${what} is not allowed on an embedded server: statements may not read or write files, run programs or reach other hosts. ` +
      `If this is the name of a table, write the database before it.`,
  );
}
