import type { Server } from "node:http";

/**
 * A server of a test that ends no connection by itself. By default Node's ends one that has been idle for 5 s, which on a busy machine meets the
 * next request on its way, and one whose request has not come whole within 300 s, which may be what the test is about.
 */
export function patient<S extends Pick<Server, "keepAliveTimeout" | "headersTimeout" | "requestTimeout">>(
  server: S,
): S {
  return Object.assign(server, { keepAliveTimeout: 0, headersTimeout: 0, requestTimeout: 0 });
}
