/** The headers by which the end of a body is told, as an answer over HTTP/1 has them. */
export interface Framing {
  readonly contentLength: string | null | undefined;
  readonly transferEncoding: string | null | undefined;
}

/** Answers that have no body, whatever their headers say. */
const bodiless = (method: string, status: number): boolean => method === "HEAD" || status === 204;

/**
 * The body of a good answer that ends with its connection: a part of it looks like all of it, and an empty one like an empty object. Null where a length or
 * a last chunk shows the end, where there is no body, and for other statuses: what they say is in the status, and proxies answer a 503 in this way.
 * It is for HTTP/1 only: HTTP/2 marks the end of every body itself.
 */
export function unprovedEnd(method: string, status: number, framing: Framing): Error | null {
  if (status < 200 || status > 299 || bodiless(method, status)) return null;
  const chunked = /(?:^|,)\s*chunked\s*$/i.test(framing.transferEncoding ?? "");
  if (chunked || typeof framing.contentLength === "string") return null;
  return new Error(
    `the answer (HTTP ${status}) came with neither a length nor chunks, so nothing shows that its body is whole; ` +
      "look at what stands before the server, such as a proxy that speaks HTTP/1.0",
  );
}
