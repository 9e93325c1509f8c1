// @ts-check
// A complete object store: a client of an HTTP service that keeps objects (server.mjs plays that service). What is the same for every
// store comes from @holdfast/object-store; what is left is to say honestly how each request ended.
import * as spi from "@holdfast/object-store";

const maxObjectBytes = 256 * 1024 * 1024;
const codes = /** @type {const} */ ({
  403: "ACCESS_DENIED",
  404: "NOT_FOUND",
  412: "PRECONDITION_FAILED",
  416: "INVALID_RANGE",
});

/**
 * @param {{ url: string, storeId: string }} o `url` of the service without a slash at its end; `storeId` names it in catalogs
 * @returns {spi.ObjectStore}
 */
export function httpStore({ url, storeId }) {
  // The key goes into the query: in a path, "a/../b" would be cleaned up on the way and become another key.
  const at = (/** @type {string} */ key) => `${url}/object?key=${encodeURIComponent(key)}`;

  // Declared because the service does both in one step. A service that looks first and then writes must say false here.
  const capabilities = { create: true, ifMatch: true, metadata: true, maxObjectBytes, maxKeyBytes: spi.maxKeyBytes };

  return {
    contract: 1,
    storeId,
    capabilities,

    async put(key, body, options) {
      const { mode, metadata = {}, signal } = options;
      let sent = false;
      try {
        spi.checkPut(key, body, options, capabilities);
        const bytes = await spi.collectBody(body, { signal });
        const condition =
          typeof mode === "object" ? { "if-match": mode.ifMatch } : mode === "create" && { "if-none-match": "*" };
        const headers = { "x-metadata": JSON.stringify(metadata), ...condition };
        spi.throwIfAborted(signal);
        sent = true;
        return await request("PUT", at(key), { signal, headers, body: bytes }, async (response) => {
          if (response.status === 201) return { outcome: "created", etag: header(response, "etag") };
          if (response.status === 412 && response.headers.has("etag"))
            return { outcome: "exists", info: info(key, response) };
          // With a condition on what is there, "nothing is there" is its refusal.
          if (response.status === 404 && typeof mode === "object")
            return { outcome: "failed", error: refusal({ status: 412 }, key) };
          // The service promises that a 4xx wrote nothing. A 5xx promises nothing: it may have come after the write.
          const refused = response.status >= 400 && response.status < 500;
          return { outcome: refused ? "failed" : "unknown", error: refusal(response, key) };
        });
      } catch (/** @type {any} */ error) {
        // The heart of a store: once sent, only an answer tells what became of a request, except where nobody listened.
        if (error?.cause?.cause?.code === "ECONNREFUSED") sent = false;
        return { outcome: sent ? "unknown" : "failed", error: spi.asError(error) };
      }
    },

    async get(key, { range, ifMatch, signal }) {
      spi.checkKey(key);
      if (range !== undefined) spi.checkRange(range);
      const headers = { ...(ifMatch && { "if-match": ifMatch }), ...(range && { range: rangeHeader(range) }) };
      return request("GET", at(key), { signal, headers }, async (response) => {
        if (!response.ok) throw refusal(response, key);
        const bytes = new Uint8Array(await response.arrayBuffer());
        const object = info(key, response);
        if (ifMatch !== undefined && object.etag !== ifMatch) throw refusal({ status: 412 }, key);
        checkBytes(bytes, object, range, response);
        return { bytes, info: object };
      });
    },

    async head(key, { signal }) {
      spi.checkKey(key);
      return request("HEAD", at(key), { signal }, async (response) => {
        if (response.status === 404) return null;
        if (response.status !== 200) throw refusal(response, key);
        return info(key, response);
      });
    },

    async *list({ prefix, startAfter = "", limit, signal }) {
      spi.checkPrefix(prefix);
      spi.checkPrefix(startAfter);
      let left = spi.checkLimit(limit);
      for (let after = startAfter; left > 0;) {
        const query = new URLSearchParams({ prefix, after, limit: String(Math.min(left, 100)) });
        const page = await request("GET", `${url}/list?${query}`, { signal }, async (response) => {
          if (response.status !== 200) throw refusal(response, prefix);
          return /** @type {spi.ObjectInfo[]} */ (await response.json());
        });
        for (const found of page) {
          // A page that repeats, goes back or wanders off would make the listing miss objects, or never end.
          if (!found.key.startsWith(prefix) || spi.compareKeys(found.key, after) <= 0)
            throw new spi.ObjectStoreError("CORRUPT", `the listing of ${JSON.stringify(prefix)} does not go forward`);
          if (left === 0) return;
          yield { ...found, metadata: {} };
          spi.throwIfAborted(signal);
          after = found.key;
          left--;
        }
        if (page.length === 0) return;
      }
    },

    async delete(key, { signal }) {
      spi.checkKey(key);
      await request("DELETE", at(key), { signal }, async (response) => {
        if (response.status !== 204 && response.status !== 404) throw refusal(response, key);
      });
    },
  };
}

/**
 * Sends a request and reads its answer, both ended by the signal. fetch leaves a listener on the signal that it is given, and a
 * service's signal lives as long as the service: so each request has a signal of its own.
 * @template T @param {string} method @param {string} target @param {RequestInit & { signal: AbortSignal }} init
 * @param {(response: Response) => Promise<T>} read
 */
async function request(method, target, { signal, ...init }, read) {
  spi.throwIfAborted(signal);
  const own = new AbortController();
  const forget = spi.onAbort(signal, () => own.abort());
  try {
    return await read(await fetch(target, { method, ...init, signal: own.signal }));
  } catch (error) {
    if (signal.aborted) throw spi.abortError(signal);
    if (error instanceof spi.ObjectStoreError) throw error;
    throw new spi.ObjectStoreError("UNAVAILABLE", `no answer to ${method} ${target}; is it running?`, { cause: error });
  } finally {
    forget();
  }
}

/**
 * What came must be what was asked for, whole: services and what stands before them ignore ranges, cut bodies and shift offsets.
 * @param {Uint8Array} bytes @param {spi.ObjectInfo} object @param {spi.ByteRange | undefined} range @param {Response} response
 */
function checkBytes(bytes, { key, size }, range, response) {
  const { offset, length } = spi.resolveRange(range, size);
  const said = `bytes ${offset}-${offset + length - 1}/${size}`;
  if (bytes.length === length && (range === undefined || response.headers.get("content-range") === said)) return;
  throw new spi.ObjectStoreError("CORRUPT", `other bytes than asked for came of ${JSON.stringify(key)}, not ${said}`);
}

/** @param {{ status: number }} response @param {string} key */
function refusal({ status }, key) {
  const code = status in codes ? codes[/** @type {keyof codes} */ (status)] : "UNAVAILABLE";
  return new spi.ObjectStoreError(code, `the service answered ${status} for ${JSON.stringify(key)}`);
}

/** @param {string} key @param {Response} response @returns {spi.ObjectInfo} */
function info(key, response) {
  const [size, modifiedAtMs] = [Number(header(response, "x-size")), Number(header(response, "x-modified-ms"))];
  return {
    key,
    size,
    modifiedAtMs,
    etag: header(response, "etag"),
    metadata: JSON.parse(header(response, "x-metadata")),
  };
}

/** @param {Response} response @param {string} name */
function header(response, name) {
  const value = response.headers.get(name);
  if (value === null) throw new spi.ObjectStoreError("CORRUPT", `the service's answer lacks the header ${name}`);
  return value;
}

/** @param {spi.ByteRange} range */
function rangeHeader(range) {
  return "suffix" in range ? `bytes=-${range.suffix}` : `bytes=${range.offset}-${range.offset + range.length - 1}`;
}
