// An S3 server on loopback that keeps objects in memory and does what a real one will not: the test's script is asked first, and what
// it leaves is answered honestly. Everything that arrives is recorded.
import { patient } from "@holdfast-private/tests-machine";
import { createHash } from "node:crypto";
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { ObjectStore } from "@holdfast/object-store";
import { s3Store, type ConnectionOptions } from "@holdfast/storage-s3";
import { onTestFinished } from "vitest";

/** A request that has arrived, with its body. */
export type Seen = {
  readonly op: "put" | "get" | "head" | "list" | "delete" | "begin" | "part" | "complete" | "giveUp" | "uploads";
  readonly key: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** The how manyth of its `op` it is, from 1. */
  readonly nth: number;
};
/** What a script does: answer in its own way, or leave it to the honest server. */
export type Script = (seen: Seen, response: ServerResponse, honest: () => void) => void;
export type Stored = { bytes: Buffer; metadata: Record<string, string> };
export type ScriptedS3 = {
  readonly url: string;
  readonly seen: Seen[];
  readonly objects: Map<string, Stored>;
  readonly uploads: Set<string>;
};

/** An answer with a code, as S3 gives it; without one, as a proxy before it does. */
export function refuse(
  response: ServerResponse,
  status: number,
  code?: string,
  headers: Record<string, string> = {},
): void {
  const body =
    code === undefined ? "" : `<Error><Code>${code}</Code><Message>made up</Message><RequestId>R1</RequestId></Error>`;
  response.writeHead(status, { "content-type": "application/xml", ...headers }).end(body);
}

/** The connection ends without an answer. */
export const reset = (response: ServerResponse): void => void response.socket?.destroy();

export const ops = (server: ScriptedS3): string => server.seen.map((one) => one.op).join(" ");

export async function scriptedS3(script: Script = (_seen, _response, honest) => honest()): Promise<ScriptedS3> {
  const state: ScriptedS3 = { url: "", seen: [], objects: new Map(), uploads: new Set() };
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const url = new URL(`http://server${request.url ?? ""}`);
      const op = opOf(request.method ?? "", url);
      const nth = state.seen.filter((one) => one.op === op).length + 1;
      const key = decodeURIComponent(url.pathname.slice("/bucket/".length));
      const seen: Seen = {
        op,
        key,
        nth,
        path: url.pathname,
        query: url.searchParams,
        headers: request.headers,
        body: Buffer.concat(chunks),
      };
      state.seen.push(seen);
      script(seen, response, () => honest(state, seen, response));
    });
  });
  patient(server);
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return Object.assign(state, { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
}

/** A store on a scripted server, without waits between its attempts. */
export const storeOn = (server: { readonly url: string }, o: Partial<ConnectionOptions> = {}): ObjectStore =>
  s3Store({
    endpoint: server.url,
    bucket: "bucket",
    allowHttp: true,
    credentials: { accessKeyId: "key-id", secretAccessKey: "hidden-key" },
    random: () => 0,
    ...o,
    client: undefined,
  });

function opOf(method: string, url: URL): Seen["op"] {
  if (url.searchParams.has("uploads")) return method === "GET" ? "uploads" : "begin";
  if (url.searchParams.has("partNumber")) return "part";
  if (url.searchParams.has("uploadId")) return method === "DELETE" ? "giveUp" : "complete";
  if (url.searchParams.has("list-type")) return "list";
  return ({ PUT: "put", HEAD: "head", DELETE: "delete" } as const)[method] ?? "get";
}

export const etagOf = (bytes: Buffer): string => `"${createHash("md5").update(bytes).digest("hex")}"`;

function honest(state: ScriptedS3, seen: Seen, response: ServerResponse): void {
  const { objects } = state;
  const there = objects.get(seen.key);
  const met = seen.headers["if-match"] ?? there;
  switch (seen.op) {
    case "put":
      if (seen.headers["if-none-match"] === "*" && there !== undefined) {
        refuse(response, 412, "PreconditionFailed");
        return;
      }
      if (typeof met === "string" && (there === undefined || etagOf(there.bytes) !== met)) {
        refuse(response, 412, "PreconditionFailed");
        return;
      }
      objects.set(seen.key, { bytes: seen.body, metadata: metadataOf(seen.headers) });
      return void response.writeHead(200, { etag: etagOf(seen.body) }).end();
    case "get":
    case "head":
      if (there === undefined) refuse(response, 404, seen.op === "get" ? "NoSuchKey" : undefined);
      else give(seen, there, response);
      return;
    case "delete":
      objects.delete(seen.key);
      return void response.writeHead(204).end();
    case "list": {
      list(state, seen, response);
      return;
    }
    case "begin":
      state.uploads.add("u1");
      objects.set("upload of parts", { bytes: Buffer.alloc(0), metadata: metadataOf(seen.headers) });
      return void response.end(
        "<InitiateMultipartUploadResult><UploadId>u1</UploadId></InitiateMultipartUploadResult>",
      );
    case "part":
      return void response.writeHead(200, { etag: etagOf(seen.body) }).end();
    case "complete": {
      const parts = new Map(
        state.seen.filter((one) => one.op === "part").map((one) => [Number(one.query.get("partNumber")), one.body]),
      );
      const bytes = Buffer.concat([...parts].sort(([a], [b]) => a - b).map(([, part]) => part));
      objects.set(seen.key, { bytes, metadata: objects.get("upload of parts")?.metadata ?? {} });
      objects.delete("upload of parts");
      state.uploads.delete("u1");
      return void response.end(`<CompleteMultipartUploadResult><ETag>"e-1"</ETag></CompleteMultipartUploadResult>`);
    }
    case "uploads":
      return void response.end(
        "<ListMultipartUploadsResult><IsTruncated>false</IsTruncated></ListMultipartUploadsResult>",
      );
    case "giveUp":
      state.uploads.delete("u1");
      return void response.writeHead(204).end();
  }
}

function give(seen: Seen, { bytes, metadata }: Stored, response: ServerResponse): void {
  const range = /^bytes=(\d*)-(\d*)$/.exec(seen.headers.range ?? "");
  const headers = {
    etag: etagOf(bytes),
    "last-modified": "Mon, 30 Nov 2026 12:00:00 GMT",
    ...Object.fromEntries(Object.entries(metadata).map(([name, value]) => [`x-amz-meta-${name}`, value])),
  };
  if (range === null)
    return void response
      .writeHead(200, { ...headers, "content-length": bytes.length })
      .end(seen.op === "get" ? bytes : "");
  const first = range[1] === "" ? Math.max(0, bytes.length - Number(range[2])) : Number(range[1]);
  const last = range[1] === "" ? bytes.length - 1 : Math.min(Number(range[2]), bytes.length - 1);
  if (first >= bytes.length) {
    refuse(response, 416, "InvalidRange");
    return;
  }
  const part = bytes.subarray(first, last + 1);
  const more = { "content-length": part.length, "content-range": `bytes ${first}-${last}/${bytes.length}` };
  response.writeHead(206, { ...headers, ...more }).end(part);
}

function list({ objects }: ScriptedS3, seen: Seen, response: ServerResponse): void {
  const after = seen.query.get("continuation-token") ?? seen.query.get("start-after") ?? "";
  const keys = [...objects.keys()]
    .filter((key) => key.startsWith(seen.query.get("prefix") ?? "") && key > after)
    .sort();
  response.end(
    listPage(keys.slice(0, Number(seen.query.get("max-keys"))), {
      more: keys.length > Number(seen.query.get("max-keys")),
    }),
  );
}

/** A page of a listing; `encode` as the server spells keys, the answer saying so unless `silent`. */
export function listPage(
  keys: readonly string[],
  o: {
    readonly more?: boolean;
    readonly token?: string | null;
    readonly encode?: (key: string) => string;
    readonly silent?: boolean;
    /** How many entries it says that it has; default: it does not say. */
    readonly count?: number;
  } = {},
): string {
  const encode = o.encode ?? encodeURIComponent;
  const token = o.token === undefined ? keys.at(-1) : (o.token ?? undefined);
  const next =
    o.more === true && token !== undefined ? `<NextContinuationToken>${xml(token)}</NextContinuationToken>` : "";
  const entries = keys.map(
    (key) =>
      `<Contents><Key>${xml(encode(key))}</Key><Size>1</Size><ETag>"e"</ETag><LastModified>2026-11-30T12:00:00.123Z</LastModified></Contents>`,
  );
  const encoding = o.silent === true ? "" : "<EncodingType>url</EncodingType>";
  const count = o.count === undefined ? "" : `<KeyCount>${o.count}</KeyCount>`;
  return `<ListBucketResult>${encoding}${count}<IsTruncated>${o.more ?? false}</IsTruncated>${next}${entries.join("")}</ListBucketResult>`;
}

const xml = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

const metadataOf = (headers: IncomingHttpHeaders): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers)
      .filter(([name]) => name.startsWith("x-amz-meta-"))
      .map(([name, value]) => [name.slice("x-amz-meta-".length), String(value)]),
  );
