// @ts-check
// The service that http-store.mjs talks to: a stand-in for the one that you have. It keeps objects in memory and listens on this
// machine only. What makes it fit for a store: a condition and the write that depends on it happen in one step.
import { createServer } from "node:http";

/** @typedef {{ bytes: Buffer, etag: string, metadata: string, modifiedAtMs: number }} Stored */

/**
 * @returns {Promise<{ url: string, loseNextAnswer(): void, close(): Promise<void> }>} `loseNextAnswer`: the next PUT is done, and its
 * connection is cut before the answer.
 */
export async function startServer() {
  /** @type {Map<string, Stored>} */
  const objects = new Map();
  let writes = 0;
  let lose = false;

  const server = createServer(async (request, response) => {
    const url = new URL(request.url ?? "/", "http://localhost");
    if (url.pathname === "/list") {
      response.end(JSON.stringify(list(objects, url.searchParams)));
      return;
    }
    const key = url.searchParams.get("key") ?? "";
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    // From here to the write nothing is awaited: no other request can come in between.
    const there = objects.get(key);
    const { "if-none-match": ifNone, "if-match": ifMatch, range } = request.headers;
    const refused = (ifNone === "*" && there !== undefined) || (ifMatch !== undefined && ifMatch !== there?.etag);
    const describe = (/** @type {Stored | undefined} */ object) => {
      if (object === undefined) return {};
      const { etag, metadata, modifiedAtMs, bytes } = object;
      return { etag, "x-metadata": metadata, "x-modified-ms": modifiedAtMs, "x-size": bytes.length };
    };
    if (request.method === "PUT") {
      if (refused) return void response.writeHead(412, describe(there)).end();
      const metadata = String(request.headers["x-metadata"] ?? "{}");
      const object = { bytes: Buffer.concat(chunks), etag: `v${++writes}`, metadata, modifiedAtMs: Date.now() };
      objects.set(key, object);
      if (lose) {
        lose = false;
        return void request.socket.destroy();
      }
      return void response.writeHead(201, describe(object)).end();
    }
    if (request.method === "DELETE") return void response.writeHead(objects.delete(key) ? 204 : 404).end();
    if (there === undefined) return void response.writeHead(404).end();
    if (refused) return void response.writeHead(412).end();
    if (range === undefined) {
      response.writeHead(200, { ...describe(there), "content-length": there.bytes.length }).end(there.bytes);
      return;
    }
    const part = cut(there.bytes, range);
    if (part === null) return void response.writeHead(416).end();
    const headers = { "content-length": part.bytes.length, "content-range": part.said };
    response.writeHead(206, { ...describe(there), ...headers }).end(part.bytes);
  });

  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
  const address = /** @type {import("node:net").AddressInfo} */ (server.address());
  return {
    url: `http://127.0.0.1:${address.port}`,
    loseNextAnswer: () => void (lose = true),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve(undefined));
        server.closeAllConnections();
      }),
  };
}

/** @param {Map<string, Stored>} objects @param {URLSearchParams} query */
function list(objects, query) {
  const [prefix = "", after = "", limit] = ["prefix", "after", "limit"].map((name) => query.get(name) ?? "");
  // Buffer.compare is the order of a listing: that of the keys' UTF-8 bytes.
  return [...objects]
    .filter(([key]) => key.startsWith(prefix) && Buffer.compare(Buffer.from(key), Buffer.from(after)) > 0)
    .sort(([a], [b]) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
    .slice(0, Number(limit))
    .map(([key, { bytes, etag, modifiedAtMs }]) => ({ key, size: bytes.length, etag, modifiedAtMs }));
}

/** @param {Buffer} bytes @param {string} range `bytes=2-5` (the last one included) or `bytes=-4` (the last four); null without a byte */
function cut(bytes, range) {
  const [, from, to] = /^bytes=(\d*)-(\d*)$/.exec(range) ?? [];
  const start = from === "" ? Math.max(0, bytes.length - Number(to)) : Number(from);
  if (start >= bytes.length) return null;
  const part = bytes.subarray(start, from === "" ? bytes.length : Number(to) + 1);
  return { bytes: part, said: `bytes ${start}-${start + part.length - 1}/${bytes.length}` };
}
