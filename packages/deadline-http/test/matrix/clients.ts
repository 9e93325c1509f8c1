// The clients of the matrix: each adapter's bound client with one read or one write, and the good answer to it.
import { lookup as systemLookup } from "node:dns";
import { Agent as HttpAgent, globalAgent } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import type { LookupFunction } from "node:net";
import { ClickHouseLogLevel, createClient, type ClickHouseClient } from "@clickhouse/client";
import { Storage, type StorageOptions } from "@google-cloud/storage";
import type { Clock } from "@holdfast/deadline-http";
import { bind as bindAws } from "@holdfast/deadline-http/aws";
import { bind as bindClickHouse, type BindOptions } from "@holdfast/deadline-http/clickhouse";
import { bindFetch } from "@holdfast/deadline-http/fetch";
import { bind as bindGcs } from "@holdfast/deadline-http/gcs";
import { rows, type Reply } from "@holdfast/testkit";
import { credentials, sdk } from "../support/aws.js";

export interface ClientOptions {
  readonly url: string;
  readonly clock?: Clock;
  readonly maxSockets?: number;
  readonly lookup?: LookupFunction;
  /** Where the client gets its credentials; without it, it has them. */
  readonly credentialsUrl?: string;
  readonly settings?: BindOptions["settings"];
}

export interface OpenClient {
  /** One request, its answer read to the end. */
  call(): Promise<unknown>;
  /** A request waits for a socket, or for one to be connected. True of a client that does not show it. */
  waiting(): boolean;
  close(): void | Promise<void>;
}

export type Vendor = "ClickHouse" | "S3" | "GCS" | "fetch";

export interface MatrixClient {
  readonly name: string;
  readonly vendor: Vendor;
  readonly kind: "read" | "write";
  /** A request body to be cut in. */
  readonly sendsBody: boolean;
  /** A good answer with a body, so that faults have something to be in the middle of. */
  readonly good: Reply;
  /** A bound client of three attempts. */
  open(o: ClientOptions): OpenClient;
}

/** Above what any machine needs. */
const vendorLimitMs = 3_600_000;
const maxAttempts = 3;
const text = "0123456789abcdef".repeat(20);

function agentsOf(o: ClientOptions): { http: HttpAgent; https: HttpsAgent; destroy(): void } {
  const { maxSockets = Infinity, lookup } = o;
  const options = { keepAlive: true, maxSockets, ...(lookup && { lookup }) };
  const [http, https] = [new HttpAgent(options), new HttpsAgent({ ...options, rejectUnauthorized: false })];
  const destroy = (): void => {
    http.destroy();
    https.destroy();
  };
  return { http, https, destroy };
}

/** With `port` only those to it. */
function waitsIn({ requests, sockets }: HttpAgent, port?: string): boolean {
  const at = ([name]: [string, unknown]): boolean => port === undefined || name.includes(`:${port}:`);
  const connecting = Object.entries(sockets).filter(at);
  return (
    Object.entries(requests).some(at) ||
    connecting.some(([, some]) => some?.some((socket) => socket.connecting) === true)
  );
}

function clickhouse(use: (client: ClickHouseClient) => Promise<unknown>) {
  return (o: ClientOptions): OpenClient => {
    const agents = agentsOf(o);
    const plain = createClient({
      url: o.url,
      log: { level: ClickHouseLogLevel.OFF },
      request_timeout: vendorLimitMs,
      keep_alive: { enabled: true, idle_socket_ttl: vendorLimitMs },
      http_agent: o.url.startsWith("https:") ? agents.https : agents.http,
    });
    const client = bindClickHouse(plain, { maxAttempts, settings: o.settings, clock: o.clock });
    return {
      call: () => use(client),
      waiting: () => waitsIn(agents.http),
      close: async () => {
        await plain.close();
        agents.destroy();
      },
    };
  };
}

type S3 = InstanceType<typeof sdk.S3Client>;

function s3(use: (client: S3) => Promise<unknown>) {
  return (o: ClientOptions): OpenClient => {
    const agents = agentsOf(o);
    const plain = new sdk.S3Client({
      region: "eu-west-1",
      endpoint: o.url,
      forcePathStyle: true,
      credentials: o.credentialsUrl === undefined ? credentials : fetchedCredentials(o.credentialsUrl),
      requestHandler: { httpAgent: agents.http, httpsAgent: agents.https },
      logger: { debug() {}, info() {}, warn() {}, error() {} },
    });
    const client = bindAws(plain, { maxAttempts, clock: o.clock });
    return {
      call: () => use(client),
      waiting: () => waitsIn(agents.http),
      close: () => {
        plain.destroy();
        agents.destroy();
      },
    };
  };
}

const fetchedCredentials = (url: string) => async () => {
  const got = (await (await fetch(url)).json()) as { AccessKeyId: string; SecretAccessKey: string };
  return { accessKeyId: got.AccessKeyId, secretAccessKey: got.SecretAccessKey };
};

/** Names of the cells -> how each is looked up, since this client's only agent of its own choosing is Node's global one. */
const lookups = new Map<string, LookupFunction>();

/** For as long as the matrix runs: one socket for each host of the global agent, and names that are looked up as the cell says. */
export function shareGlobalAgent(): () => void {
  const agent = globalAgent as unknown as { maxSockets: number; options: { lookup?: LookupFunction } };
  const before = agent.maxSockets;
  agent.maxSockets = 1;
  agent.options.lookup = (host, o, callback) => (lookups.get(host) ?? systemLookup)(host, o, callback);
  return () => {
    agent.maxSockets = before;
    delete agent.options.lookup;
    globalAgent.destroy();
  };
}

function gcs(use: (storage: Storage) => Promise<unknown>) {
  return (o: ClientOptions): OpenClient => {
    const options: StorageOptions = { apiEndpoint: o.url, projectId: "p" };
    const storage = bindGcs(
      o.credentialsUrl === undefined ? new Storage(options) : tokenStorage(options, o.credentialsUrl),
      { maxAttempts, tokenTimeoutMs: vendorLimitMs, clock: o.clock },
    );
    const { port } = new URL(o.url);
    const ownAgent = o.maxSockets !== undefined || o.lookup !== undefined;
    if (ownAgent) {
      storage.interceptors.push({ request: (made) => Object.assign(made, { forever: false }) as never });
    }
    if (o.lookup) lookups.set(new URL(o.url).hostname, o.lookup);
    return {
      call: () => use(storage),
      waiting: () => !ownAgent || waitsIn(globalAgent, port),
      close: () => undefined,
    };
  };
}

function tokenStorage(options: StorageOptions, tokenUrl: string): Storage {
  const credentials = { type: "authorized_user", client_id: "i", client_secret: "s", refresh_token: "r" };
  const storage = new Storage({ ...options, useAuthWithCustomEndpoint: true, credentials });
  const { authClient } = storage as unknown as {
    authClient: { fromJSON(json: object): { endpoints: object }; cachedCredential: object };
  };
  const client = authClient.fromJSON(credentials);
  Object.assign(client.endpoints, { oauth2TokenUrl: tokenUrl });
  authClient.cachedCredential = client;
  return storage;
}

type Dispatcher = Record<"destroy", () => Promise<void>>;

/** Node's own undici shows its Agent in one place only: the dispatcher that fetch uses by default, made by its first use. */
function dispatcher(o: ClientOptions): Dispatcher {
  const global: unknown = Reflect.get(globalThis, Symbol.for("undici.globalDispatcher.1"));
  const Agent = Reflect.get(global as object, "constructor") as new (o: object) => Dispatcher;
  const { maxSockets, lookup } = o;
  return new Agent({
    ...(maxSockets !== undefined && { connections: maxSockets }),
    connect: { rejectUnauthorized: false, ...(lookup && { lookup }) },
  });
}

function fetching(init: RequestInit) {
  return (o: ClientOptions): OpenClient => {
    const own = dispatcher(o);
    const bound = bindFetch(fetch, { maxAttempts, clock: o.clock });
    const call = async (): Promise<unknown> => {
      const response = await bound(o.url, { ...init, dispatcher: own } as RequestInit);
      await response.text();
      return response.status;
    };
    return { call, waiting: () => true, close: () => own.destroy() };
  };
}

const json: Reply = {
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify({ name: "f", size: String(text.length), metadata: { text } }),
};
const bytes: Reply = { headers: { "Content-Type": "application/octet-stream", ETag: '"e"' }, body: text };

export const clients: readonly MatrixClient[] = [
  {
    name: "ClickHouse SELECT",
    vendor: "ClickHouse",
    kind: "read",
    sendsBody: true,
    good: rows('{"a":"0123456789"}\n'.repeat(20)),
    open: clickhouse(async (client) =>
      (await client.query({ query: "SELECT a FROM t", format: "JSONEachRow" })).json(),
    ),
  },
  {
    name: "ClickHouse INSERT",
    vendor: "ClickHouse",
    kind: "write",
    sendsBody: true,
    good: rows("\n".repeat(60)),
    open: clickhouse((client) => client.insert({ table: "t", values: [{ a: text }], format: "JSONEachRow" })),
  },
  {
    name: "S3 GetObject",
    vendor: "S3",
    kind: "read",
    sendsBody: false,
    good: bytes,
    open: s3(async (client) => {
      const { Body } = await client.send(new sdk.GetObjectCommand({ Bucket: "b", Key: "k" }));
      return Body!.transformToByteArray();
    }),
  },
  {
    name: "S3 PutObject",
    vendor: "S3",
    kind: "write",
    sendsBody: true,
    good: { ...bytes, body: " ".repeat(60) },
    open: s3((client) => client.send(new sdk.PutObjectCommand({ Bucket: "b", Key: "k", Body: text }))),
  },
  {
    name: "GCS download",
    vendor: "GCS",
    kind: "read",
    sendsBody: false,
    good: bytes,
    open: gcs((storage) => storage.bucket("b").file("f").download({ validation: false })),
  },
  {
    name: "GCS save",
    vendor: "GCS",
    kind: "write",
    sendsBody: true,
    good: json,
    open: gcs((storage) => storage.bucket("b").file("f").save(text, { resumable: false, validation: false })),
  },
  { name: "fetch GET", vendor: "fetch", kind: "read", sendsBody: false, good: bytes, open: fetching({}) },
  {
    name: "fetch POST",
    vendor: "fetch",
    kind: "write",
    sendsBody: true,
    good: bytes,
    open: fetching({ method: "POST", body: text }),
  },
];
