/**
 * The wire between the suite's own client and a server that keeps its objects in the store under test: as little of HTTP as it takes
 * to say what goes wrong with real stores.
 */
import { crc32 } from "node:zlib";
import { errorCode, type ByteRange, type ObjectStore, type PutOptions, type PutResult } from "@holdfast/object-store";
import type { Operation } from "../faults.js";
import { all } from "../lies.js";

export type WireRequest = {
  readonly op: Operation;
  /** The key, or the prefix of a listing. */
  readonly key: string;
  readonly body?: Uint8Array;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly createOnly?: boolean;
  readonly ifMatch?: string;
  readonly range?: ByteRange;
  readonly startAfter?: string;
  readonly token?: string;
  readonly pageSize?: number;
};

export type WireItem = {
  readonly key: string;
  readonly size: number;
  readonly etag: string;
  readonly modifiedAtMs: number;
};

export type WireAnswer = {
  readonly status: number;
  /** What the error document says; also possible with status 200. */
  readonly error?: string;
  /** In quotes, as HTTP has it. */
  readonly etag?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly modifiedAtMs?: number;
  /** Of the whole object. */
  readonly size?: number;
  /** The first and last byte of a 206. */
  readonly range?: { readonly first: number; readonly last: number };
  /** The declared bytes of the body, its CRC-32, and whether it was compressed on the way. */
  readonly length?: number;
  readonly checksum?: number;
  readonly encoding?: "gzip";
  readonly body?: AsyncIterable<Uint8Array>;
  readonly page?: {
    readonly items: readonly WireItem[];
    readonly count: number;
    readonly more: boolean;
    readonly token?: string;
  };
};

/** Sends a request and gives its answer; rejects when the connection is reset. */
export type Wire = (request: WireRequest) => Promise<WireAnswer>;

const { signal } = new AbortController();

/** The server: each request is one call of the store. */
export function serve(store: ObjectStore): Wire {
  const answers: { readonly [O in Operation]: Wire } = {
    put: async ({ key, body, metadata, createOnly, ifMatch }) => {
      const mode: PutOptions["mode"] =
        createOnly === true ? "create" : ifMatch === undefined ? "overwrite" : { ifMatch };
      const more = metadata === undefined ? {} : { metadata };
      return putAnswer(await store.put(key, body ?? new Uint8Array(0), { mode, signal, ...more }));
    },
    get: async ({ key, range, ifMatch }) => {
      const o = { ...(range === undefined ? {} : { range }), ...(ifMatch === undefined ? {} : { ifMatch }) };
      const { bytes, info } = await store.get(key, { ...o, signal });
      const first = range === undefined ? 0 : "suffix" in range ? info.size - bytes.length : range.offset;
      return {
        ...infoAnswer(info),
        status: range === undefined ? 200 : 206,
        ...(range === undefined ? {} : { range: { first, last: first + bytes.length - 1 } }),
        length: bytes.length,
        checksum: crc32(bytes),
        body: inPieces(bytes),
      };
    },
    head: async ({ key }) => {
      const info = await store.head(key, { signal });
      return info === null ? { status: 404 } : { ...infoAnswer(info), metadata: info.metadata };
    },
    list: async ({ key: prefix, startAfter, token, pageSize = 3 }) => {
      const after = token === undefined ? startAfter : token.slice("after:".length) || undefined;
      const from = after === undefined ? {} : { startAfter: after };
      const found = await all(store.list({ prefix, limit: pageSize + 1, signal, ...from }));
      const items = found.slice(0, pageSize).map((info) => ({ ...info, etag: `"${info.etag}"` }));
      const more = found.length > pageSize;
      const next = more ? { token: `after:${items.at(-1)?.key ?? ""}` } : {};
      return { status: 200, page: { items, count: items.length, more, ...next } };
    },
    delete: async ({ key }) => {
      await store.delete(key, { signal });
      return { status: 204 };
    },
  };
  return (request) => answers[request.op](request).catch((error: unknown) => refusal(errorCode(error)));
}

function putAnswer(result: PutResult): WireAnswer {
  if (result.outcome === "created") return { status: 200, etag: `"${result.etag}"` };
  if (result.outcome === "exists") return { status: 412 };
  return result.outcome === "failed" ? refusal(errorCode(result.error), true) : { status: 500 };
}

function refusal(code = "InternalError", ofPut = false): WireAnswer {
  if (code === "NOT_FOUND") return { status: 404, error: code };
  // A put under a condition, with nothing there, is a 404 on S3; a read is a 412.
  if (code === "PRECONDITION_FAILED") return { status: ofPut ? 404 : 412, error: code };
  if (code === "INVALID_RANGE") return { status: 416, error: code };
  return { status: code === "ACCESS_DENIED" ? 403 : 500, error: code };
}

const infoAnswer = (info: {
  readonly etag: string;
  readonly size: number;
  readonly metadata: Readonly<Record<string, string>>;
  readonly modifiedAtMs: number;
}): WireAnswer => ({
  status: 200,
  etag: `"${info.etag}"`,
  size: info.size,
  metadata: info.metadata,
  modifiedAtMs: info.modifiedAtMs,
});

/** Bytes in two pieces, so that something can go wrong between them. */
export async function* inPieces(bytes: Uint8Array, between?: () => Promise<void>): AsyncGenerator<Uint8Array, void> {
  const half = Math.ceil(bytes.length / 2);
  yield bytes.subarray(0, half);
  await between?.();
  if (half < bytes.length) yield bytes.subarray(half);
}
