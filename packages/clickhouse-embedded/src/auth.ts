import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { QueryError } from "./clickhouse-errors.js";

type Credentials = { readonly user: string; readonly password: string };

/** Who a request says it is: X-ClickHouse-User and -Key, else Basic, else the URL, else `default` without a password. */
function credentials(headers: IncomingHttpHeaders, fields: URLSearchParams): Credentials {
  const user = headers["x-clickhouse-user"];
  const key = headers["x-clickhouse-key"];
  if (typeof user === "string" || typeof key === "string") {
    return { user: typeof user === "string" ? user : "default", password: typeof key === "string" ? key : "" };
  }
  const authorization = headers.authorization;
  if (authorization !== undefined) {
    const basic = /^Basic\s+(\S*)$/i.exec(authorization);
    if (basic === null) {
      throw QueryError.of(
        516,
        "Only user and password are supported on an embedded server (Basic, or X-ClickHouse-User and X-ClickHouse-Key); access tokens are not.",
      );
    }
    const text = Buffer.from(basic[1] ?? "", "base64").toString("utf8");
    const colon = text.indexOf(":");
    return { user: text.slice(0, colon < 0 ? text.length : colon), password: colon < 0 ? "" : text.slice(colon + 1) };
  }
  return { user: fields.get("user") ?? "default", password: fields.get("password") ?? "" };
}

const digest = (text: string): Buffer => createHash("sha256").update(text).digest();

/** Checks a request's user and password. There is one user, `default`. Error 516 in ClickHouse's words, which do not tell which was wrong. */
export function authenticate(headers: IncomingHttpHeaders, fields: URLSearchParams, password: string): void {
  const given = credentials(headers, fields);
  if (given.user === "default" && timingSafeEqual(digest(given.password), digest(password))) return;
  throw QueryError.of(
    516,
    `${given.user}: Authentication failed: password is incorrect, or there is no user with such name. ` +
      `The embedded server has one user, default, with the password given to startEmbeddedClickHouse.`,
  );
}
