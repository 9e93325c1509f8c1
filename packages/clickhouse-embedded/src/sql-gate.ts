import { QueryError } from "./clickhouse-errors.js";
import { isWord, type Token } from "./sql-lexer.js";

/** What the gate must know about the request besides its text. */
export type GateContext = { readonly inSession: boolean; readonly readonly: boolean };

const upper = (t: Token | undefined): string => (t?.kind === "word" ? t.text.toUpperCase() : "");
const nameOf = (t: Token | undefined): string =>
  t?.kind === "word" || t?.kind === "quoted" ? t.text.toLowerCase() : "";
const isPunct = (t: Token | undefined, text: string): boolean => t?.kind === "punct" && t.text === text;

/** Functions and table functions that read or write outside the data directory, run programs or reach other hosts. */
const outside: ReadonlySet<string> = new Set(
  (
    "file filesystem filecluster url urlcluster executable executablepool python s3 s3cluster gcs oss cosn hdfs hdfscluster " +
    "azureblobstorage azureblobstoragecluster remote remotesecure mysql postgresql mongodb redis sqlite jdbc odbc " +
    "deltalake deltalakelocal deltalakecluster deltalakes3 deltalakeazure deltalakeazurecluster deltalakes3cluster hudi hudicluster " +
    "iceberg icebergcluster iceberglocal iceberglocalcluster icebergs3 icebergs3cluster icebergazure icebergazurecluster iceberghdfs iceberghdfscluster " +
    "paimon paimoncluster paimonlocal paimons3 paimons3cluster paimonazure paimonazurecluster paimonhdfs paimonhdfscluster " +
    "ytsaurus arrowflight catboostevaluate"
  ).split(" "),
);

const systemAllowed: ReadonlySet<string> = new Set([
  "START",
  "STOP",
  "FLUSH",
  "DROP",
  "CLEAR",
  "RELOAD",
  "WAIT",
  "REFRESH",
  "CANCEL",
  "SYNC",
]);

/**
 * Refuses what this server must not run, before the engine sees it. The number of statements is counted by the engine's own parser
 * elsewhere; this gate looks at words, because what it refuses cannot be revoked in the engine (INTO OUTFILE, FROM INFILE, SHUTDOWN) or
 * would be accepted and ignored (quorum).
 */
export function checkStatement(all: readonly Token[], sql: string, context: GateContext): void {
  const first = upper(all[0]);
  const second = upper(all[1]);
  for (let i = 0; i < all.length; i++) checkToken(all, i, sql);
  if ((first === "SET" || first === "USE") && !context.inSession) {
    throw QueryError.of(
      48,
      `${first} outside a session would last for this one request only; send clickhouse_settings or database with each request, or use session_id.`,
    );
  }
  if (first === "SYSTEM" && (!systemAllowed.has(second) || upper(all[2]) === "LISTEN")) {
    throw QueryError.of(497, `SYSTEM ${second} is not allowed on an embedded server; to end it use stop().`);
  }
  if (first === "KILL" && all.some((t) => isWord(t, "SYNC"))) {
    throw QueryError.of(48, "KILL … SYNC would never return on the embedded engine; use KILL … ASYNC.");
  }
  if ((first === "DROP" || first === "DETACH") && second === "DATABASE") {
    const name = upper(all[2]) === "IF" ? all[4] : all[2];
    if (nameOf(name) === "default")
      throw QueryError.of(497, "The database default cannot be dropped on an embedded server.");
  }
  if (first === "INSERT" && all.some((t, i) => nameOf(t) === "input" && isPunct(all[i + 1], "("))) {
    throw QueryError.of(
      48,
      "INSERT … SELECT … FROM input() is not supported on an embedded server; insert into a table and select from it.",
    );
  }
  if (context.readonly && !readWords.has(first)) {
    throw QueryError.of(
      164,
      `Cannot execute query in readonly mode. For queries over HTTP, method ${"GET"} implies readonly. You should use method POST for modifying queries.`,
    );
  }
}

const readWords: ReadonlySet<string> = new Set([
  "",
  "SELECT",
  "WITH",
  "FROM",
  "SHOW",
  "DESCRIBE",
  "DESC",
  "EXISTS",
  "EXPLAIN",
  "SET",
  "USE",
  "CHECK",
]);

function checkToken(all: readonly Token[], i: number, sql: string): void {
  const t = all[i];
  if (t === undefined) return;
  if (t.kind === "open" && /outfile|infile/i.test(sql.slice(t.start)))
    refuseFile("OUTFILE or INFILE after an unclosed quote");
  if (t.kind === "word" && /^(?:outfile|infile)$/i.test(t.text) && ["INTO", "FROM"].includes(upper(all[i - 1]))) {
    refuseFile(`${upper(all[i - 1])} ${upper(t)}`);
  }
  const name = nameOf(t);
  if (outside.has(name) && isPunct(all[i + 1], "(") && !isPunct(all[i - 1], ".")) refuseFile(`${name}()`);
  if (name === "insert_quorum" && isPunct(all[i + 1], "=")) checkQuorum(all[i + 2]?.text ?? "");
}

function refuseFile(what: string): never {
  throw QueryError.of(
    497,
    `${what} is not allowed on an embedded server: statements may not read or write files, run programs or reach other hosts.`,
  );
}

/** The engine accepts a quorum and writes without one; a caller who asks for copies must be told that there are none. */
export function checkQuorum(value: string): void {
  const bare = value.replace(/^'|'$/g, "");
  if (bare === "0" || bare === "1" || bare === "") return;
  throw QueryError.of(
    48,
    `insert_quorum = ${bare} needs replicas, and this server is one node; use insert_quorum = 0 (topology "single").`,
  );
}
