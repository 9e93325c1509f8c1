/** What the engine answers `SELECT version()`; part of each error text, as the server appends it. */
export const engineVersion = "26.7.2.1";

/** Names of the codes that this server raises itself; the engine names its own. */
const names = {
  36: "BAD_ARGUMENTS",
  48: "NOT_IMPLEMENTED",
  62: "SYNTAX_ERROR",
  73: "UNKNOWN_FORMAT",
  115: "UNKNOWN_SETTING",
  159: "TIMEOUT_EXCEEDED",
  164: "READONLY",
  202: "TOO_MANY_SIMULTANEOUS_QUERIES",
  216: "QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING",
  243: "NOT_ENOUGH_SPACE",
  354: "ZLIB_INFLATE_FAILED",
  372: "SESSION_NOT_FOUND",
  373: "SESSION_IS_LOCKED",
  394: "QUERY_WAS_CANCELLED",
  456: "UNKNOWN_QUERY_PARAMETER",
  497: "ACCESS_DENIED",
  516: "AUTHENTICATION_FAILED",
  1002: "UNKNOWN_EXCEPTION",
} as const;
export type OwnErrorCode = keyof typeof names;

/** An error of one query, in ClickHouse's terms. `text` is what the client gets. */
export class QueryError extends Error {
  override readonly name = "QueryError";
  constructor(
    readonly clickhouseCode: number,
    readonly text: string,
  ) {
    super(text);
  }

  /** An error of this server in ClickHouse's words: `Code: N. DB::Exception: message. (NAME) (version …)`. */
  static of(code: OwnErrorCode, message: string): QueryError {
    return new QueryError(code, withVersion(`Code: ${code}. DB::Exception: ${message} (${names[code]})`));
  }
}

const withVersion = (text: string): string => `${text} (version ${engineVersion} (official build))`;

/**
 * The engine's error as the server would send it. The engine doubles the text of errors found while parsing (`Code: N. DB::Exception: Code:
 * N. DB::Exception: …`, each with its own ending), and names the spool file when a body cannot be read: both are undone.
 */
export function fromEngine(error: unknown, hide: readonly string[] = []): QueryError {
  if (error instanceof QueryError) return error;
  let text = error instanceof Error ? error.message : String(error);
  const first = /Code: (\d+)\./.exec(text);
  if (first === null) return QueryError.of(1002, `${text}.`);
  text = text.slice(text.lastIndexOf("DB::Exception: ") + "DB::Exception: ".length);
  const name = /\(([A-Z][A-Z0-9_]+)\)/.exec(text);
  text = text.replace(/\s*\(version [0-9.]+(?: \([^)]*\))?\)\.?/g, "").replace(/(\s*\([A-Z][A-Z0-9_]+\))+\s*$/, "");
  for (const path of hide) {
    text = text
      .replaceAll(new RegExp(`:? ?\\(in file/uri ${escapeRegExp(path)}\\)`, "g"), "")
      .replaceAll(path, "<body>");
  }
  const code = Number(first[1]);
  return new QueryError(
    code,
    withVersion(`Code: ${code}. DB::Exception: ${text.trimEnd()} (${name?.[1] ?? "UNKNOWN_EXCEPTION"})`),
  );
}

const escapeRegExp = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

const statusOf: ReadonlyMap<number, number> = new Map([
  ...each(401, [194]),
  ...each(403, [192, 193, 516, 512, 497]),
  ...each(
    400,
    [36, 427, 6, 25, 26, 38, 41, 72, 441, 675, 676, 27, 376, 15, 44, 8, 37, 123, 167, 168, 223, 62, 117, 53, 321],
  ),
  ...each(404, [60, 46, 47, 50, 56, 81, 115, 152, 63, 73, 336, 78, 511]),
  ...each(408, [159]),
  ...each(411, [381]),
  ...each(413, [229]),
  ...each(415, [779]),
  ...each(501, [48]),
  ...each(503, [209, 76, 439]),
]);

function each(status: number, codes: readonly number[]): [number, number][] {
  return codes.map((code) => [code, status]);
}

/** The HTTP status that ClickHouse gives an error code: 500 for all that it does not list. */
export const httpStatus = (code: number): number => statusOf.get(code) ?? 500;
