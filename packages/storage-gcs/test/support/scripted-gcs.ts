// The fake GCS of testkit behind a plan: the plan is asked about each request first, and what it leaves is answered honestly.
import type { Storage, StorageOptions } from "@google-cloud/storage";
import type { ObjectStore } from "@holdfast/object-store";
import { gcsStore, type ClientOptions } from "@holdfast/storage-gcs";
import {
  delivered,
  gcsObjects,
  startFaultServer,
  type FaultServer,
  type GcsObjects,
  type GcsObjectsOptions,
  type ReceivedRequest,
  type Reply,
  type Script,
} from "@holdfast/testkit";
import { onTestFinished } from "vitest";
import type { Vendor } from "./vendors.js";

/** What a request is: of an upload at once, a session (its begin, bytes, the question how far it is, its end), or of the rest. */
export type Op = "put" | "begin" | "chunk" | "far" | "end" | "get" | "head" | "list" | "delete";

/** A request that has arrived. */
export type Seen = {
  readonly op: Op;
  /** The how manyth of its `op` it is, from 1. */
  readonly nth: number;
  readonly request: ReceivedRequest;
};

/** What the server does about a request: answer in its own way, or honestly. */
export type Plan = (seen: Seen, honest: () => Reply) => Reply | Promise<Reply>;

export type ScriptedGcs = {
  readonly url: string;
  readonly seen: Seen[];
  readonly fake: GcsObjects;
  readonly server: FaultServer;
  /** The operations that have arrived, in order. */
  ops(): string;
  /** The bytes of an object of the bucket `bucket`. */
  bytesOf(key: string): Buffer | undefined;
};

/** The connection ends without an answer. */
export const reset = (reply: Reply = {}): Reply => delivered(reply, { stopAt: { place: "before-headers", by: "rst" } });
/** No answer ever. */
export const stalled: Reply = delivered({}, { delayMs: Infinity });

export async function scriptedGcs(
  plan: Plan = (_seen, honest) => honest(),
  o: { readonly fake?: GcsObjectsOptions; readonly scripts?: readonly Script[] } = {},
): Promise<ScriptedGcs> {
  const fake = gcsObjects(o.fake);
  const seen: Seen[] = [];
  const otherwise = (request: ReceivedRequest): Reply | Promise<Reply> => {
    const op = opOf(request);
    const one: Seen = { op, request, nth: seen.filter((before) => before.op === op).length + 1 };
    seen.push(one);
    return plan(one, () => fake.answer(request));
  };
  const server = await startFaultServer({ otherwise, scripts: o.scripts ?? [] });
  onTestFinished(() => server[Symbol.asyncDispose]());
  return {
    url: server.url,
    seen,
    fake,
    server,
    ops: () => seen.map(({ op }) => op).join(" "),
    bytesOf: (key) => fake.objects.get(`bucket/${key}`)?.bytes,
  };
}

export function opOf({ method, url, headers }: ReceivedRequest): Op {
  const { searchParams: query, pathname } = url;
  if (query.has("upload_id")) {
    if (method === "DELETE") return "end";
    return headers["content-range"]?.startsWith("bytes */") === true ? "far" : "chunk";
  }
  if (pathname.startsWith("/upload/")) return query.get("uploadType") === "resumable" ? "begin" : "put";
  if (pathname.endsWith("/o")) return "list";
  if (method === "DELETE") return "delete";
  return query.get("alt") === "media" ? "get" : "head";
}

type Options = Partial<Omit<ClientOptions, "client">>;

/** A client of this major for a server on loopback; it sends no token unless told otherwise. */
export const clientOf = (vendor: Vendor, url: string, o: StorageOptions = {}): Storage =>
  new vendor.Storage!({ apiEndpoint: url, projectId: "p", ...o });

/** A store on a scripted server, without waits between its attempts. */
export const storeOn = (
  vendor: Vendor,
  server: { readonly url: string },
  o: Options = {},
  client: StorageOptions = {},
): ObjectStore =>
  gcsStore({
    client: clientOf(vendor, server.url, client),
    bucket: "bucket",
    storeId: "scripted",
    allowHttp: true,
    random: () => 0,
    ...o,
  });

/** Bytes that show a part that is missing, repeated or elsewhere. */
export const patterned = (size: number): Buffer =>
  Buffer.from(Uint8Array.from({ length: size }, (_, i) => (i * 31 + (i >> 8) * 7 + (i >> 16)) & 255));

/** A body that is read from its start each time, counting how often. */
export function streamed(whole: Uint8Array, piece = 16_384) {
  let opened = 0;
  return {
    size: whole.byteLength,
    opened: () => opened,
    async *open(): AsyncGenerator<Uint8Array> {
      opened++;
      for (let at = 0; at < whole.byteLength; at += piece) yield whole.subarray(at, at + piece);
    },
  };
}
