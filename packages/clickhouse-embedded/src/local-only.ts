import type { IncomingHttpHeaders } from "node:http";
import { QueryError } from "./clickhouse-errors.js";

const isLoopback = (host: string): boolean => /^(?:127(?:\.\d{1,3}){3}|localhost|\[::1\])(?::\d+)?$/i.test(host);

/**
 * Refuses requests that a web page makes: a server on loopback without a password would otherwise be open to every page that the user
 * visits. Pages give themselves away by Origin, or (a name that was made to point here) by Host.
 */
export function checkLocal(headers: IncomingHttpHeaders): void {
  const host = headers.host ?? "localhost";
  const origin = headers.origin;
  const originHost = origin === undefined ? null : /^https?:\/\/([^/]+)$/i.exec(origin)?.[1];
  if (isLoopback(host) && (originHost === null || (originHost !== undefined && isLoopback(originHost)))) return;
  throw QueryError.of(
    516,
    `Requests must be made to 127.0.0.1 or localhost, and not by a web page of another host (Host '${host}', Origin '${origin ?? ""}').`,
  );
}
