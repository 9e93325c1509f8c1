import type { IncomingHttpHeaders } from "node:http";
import { QueryError } from "./clickhouse-errors.js";

/** What a request asks for, from its URL, headers and (multipart) form, the server's own names apart from settings. */
export type QueryRequest = {
  readonly query: string;
  readonly queryId: string;
  readonly database: string | null;
  readonly defaultFormat: string;
  readonly waitEnd: boolean;
  readonly holdBytes: number;
  readonly compress: boolean;
  readonly session: { readonly id: string; readonly timeoutSeconds: number; readonly mustExist: boolean } | null;
  readonly settings: ReadonlyMap<string, string>;
  readonly params: ReadonlyMap<string, string>;
};

const notSettings = new Set([
  "query",
  "query_id",
  "database",
  "default_format",
  "wait_end_of_query",
  "buffer_size",
  "session_id",
  "session_timeout",
  "session_check",
  "user",
  "password",
  "quota_key",
  "compress",
  "decompress",
  "role",
  "close_session",
]);

const isTrue = (value: string | null | undefined): boolean => value === "1" || value?.toLowerCase() === "true";

/** Reads a request. Throws a QueryError for what this server does not do. */
export function readRequest(fields: URLSearchParams, headers: IncomingHttpHeaders, newId: () => string): QueryRequest {
  const header = (name: string): string | null => {
    const value = headers[name];
    return typeof value === "string" && value !== "" ? value : null;
  };
  const field = (name: string): string | null => {
    const value = fields.get(name);
    return value === "" ? null : value;
  };
  for (const name of ["compress", "decompress"]) {
    if (isTrue(field(name))) {
      throw QueryError.of(
        48,
        `${name}=1 (ClickHouse's own block compression) is not supported; use Content-Encoding and Accept-Encoding.`,
      );
    }
  }
  const role = field("role");
  if (role !== null) throw QueryError.of(48, `Roles are not supported on an embedded server (role '${role}').`);
  const settings = new Map<string, string>();
  const params = new Map<string, string>();
  for (const [name, value] of fields) {
    if (name.startsWith("param_")) params.set(name.slice("param_".length), value);
    else if (!notSettings.has(name)) settings.set(name, value);
  }
  const sessionId = field("session_id");
  return {
    query: fields.get("query") ?? "",
    queryId: field("query_id") ?? newId(),
    database: field("database") ?? header("x-clickhouse-database"),
    defaultFormat: field("default_format") ?? header("x-clickhouse-format") ?? "TabSeparated",
    waitEnd: isTrue(field("wait_end_of_query")),
    holdBytes: wholeNumber("buffer_size", field("buffer_size") ?? "0", 1 << 30),
    compress: isTrue(settings.get("enable_http_compression")),
    session:
      sessionId === null
        ? null
        : {
            id: sessionId,
            timeoutSeconds: wholeNumber("session_timeout", field("session_timeout") ?? "60", 3600),
            mustExist: isTrue(field("session_check")),
          },
    settings,
    params,
  };
}

function wholeNumber(name: string, text: string, most: number): number {
  const value = Number(text);
  if (!/^[0-9]+$/.test(text) || value > most) {
    throw QueryError.of(36, `${name} = '${text}' is not a whole number from 0 to ${most}.`);
  }
  return value;
}
