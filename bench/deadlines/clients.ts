// The clients, bare and ours. The bare ones have their own time limits at the same value, as a careful user sets them.
import { lookup as systemLookup } from "node:dns";
import { Agent, get, globalAgent } from "node:http";
import type { LookupFunction } from "node:net";
import { GetObjectCommand, PutObjectCommand, S3Client } from "@aws-sdk/client-s3";
import { ClickHouseLogLevel, createClient, type ClickHouseClient } from "@clickhouse/client";
import { Storage, type StorageOptions } from "@google-cloud/storage";
import { within } from "@holdfast/deadline-http";
import { bind as bindAws } from "@holdfast/deadline-http/aws";
import { bind as bindClickHouse } from "@holdfast/deadline-http/clickhouse";
import { bindFetch } from "@holdfast/deadline-http/fetch";
import { bind as bindGcs } from "@holdfast/deadline-http/gcs";
import { lookupFails, lookupStalls } from "@holdfast/testkit";
import { boundMs, isReached, type ClientName, type FaultName, type Places } from "./cases.js";

export type Who = "ours" | "bare";
/** One call; `tag` goes into its address. */
export type Call = (tag: string) => Promise<unknown>;

const text = "0123456789abcdef".repeat(20);

/** The address that a fault is met at, and what the pool needs for it. */
interface Way {
  readonly url: string;
  readonly lookup?: LookupFunction;
  readonly maxSockets?: number;
  readonly credentialsUrl?: string;
}

function wayTo(fault: FaultName, places: Places): Way {
  const at = (port: number, host = "127.0.0.1"): string => `http://${host}:${port}`;
  if (isReached(fault)) return { url: at(places.port) };
  switch (fault) {
    case "not accepted":
      return { url: at(places.notAccepted) };
    case "connect never completes":
      return { url: at(places.neverConnects) };
    case "refused":
      return { url: at(places.refused) };
    case "unresolved":
      return { url: at(places.port, "unresolved.invalid"), lookup: lookupFails };
    case "lookup stalls":
      return { url: at(places.port, "stalls.invalid"), lookup: lookupStalls };
    case "pool exhausted":
      return { url: at(places.port, "127.0.0.1"), maxSockets: 1 };
    case "credentials stall":
      return { url: at(places.port), credentialsUrl: at(places.port) };
  }
}

/** Makes the call of a client that meets this fault. Connections are shared by the calls of one client and pool. */
export function callFor(who: Who, client: ClientName, fault: FaultName, places: Places): Call {
  const way = wayTo(fault, places);
  switch (client) {
    case "ClickHouse SELECT":
    case "ClickHouse INSERT":
      return clickHouse(who, client, way);
    case "S3 GetObject":
    case "S3 PutObject":
      return s3(who, client, way);
    case "GCS download":
    case "GCS save":
      return gcs(who, client, way);
    case "fetch GET":
    case "fetch POST":
      return fetching(who, client, way);
  }
}

const underBound = (who: Who, call: Call): Call =>
  who === "bare" ? call : (tag) => within(boundMs, () => call(tag), { name: "the bound" });

/** A request that takes the only socket, and keeps it. */
function occupy(agent: Agent, url: string): void {
  get(url, { agent }).on("error", () => undefined);
}

function agentFor({ maxSockets, lookup, url }: Way): Agent {
  const agent = new Agent({ keepAlive: true, ...(maxSockets && { maxSockets }), ...(lookup && { lookup }) });
  if (maxSockets === 1) occupy(agent, url);
  return agent;
}

function clickHouse(who: Who, name: ClientName, way: Way): Call {
  const plain = createClient({
    url: way.url,
    http_agent: agentFor(way),
    request_timeout: who === "bare" ? boundMs : 30_000,
    log: { level: ClickHouseLogLevel.OFF },
  });
  const client: ClickHouseClient = who === "bare" ? plain : bindClickHouse(plain);
  return underBound(who, async (tag) => {
    const clickhouse_settings = { log_comment: tag };
    if (name === "ClickHouse INSERT") {
      return client.insert({ table: "t", values: [{ a: text }], format: "JSONEachRow", clickhouse_settings });
    }
    return (await client.query({ query: "SELECT a FROM t", format: "JSONEachRow", clickhouse_settings })).json();
  });
}

function s3(who: Who, name: ClientName, way: Way): Call {
  const limits = {
    requestTimeout: boundMs,
    throwOnRequestTimeout: true,
    connectionTimeout: boundMs,
    socketTimeout: boundMs,
  };
  const { credentialsUrl } = way;
  const plain = new S3Client({
    region: "eu-west-1",
    endpoint: way.url,
    forcePathStyle: true,
    credentials:
      credentialsUrl === undefined
        ? { accessKeyId: "id", secretAccessKey: "secret" }
        : async () => (await (await fetch(credentialsUrl)).json()) as { accessKeyId: string; secretAccessKey: string },
    requestHandler: { httpAgent: agentFor(way), ...(who === "bare" && limits) },
    logger: { debug() {}, info() {}, warn() {}, error() {} },
  });
  const client = who === "bare" ? plain : bindAws(plain);
  return underBound(who, async (Key) => {
    if (name === "S3 PutObject") return client.send(new PutObjectCommand({ Bucket: "b", Key, Body: text }));
    return (await client.send(new GetObjectCommand({ Bucket: "b", Key }))).Body?.transformToByteArray();
  });
}

const lookups = new Map<string, LookupFunction>();
let sharing = false;

/** The only agent of a user's own choosing that this SDK can be made to use is Node's global one. */
function shareGlobalAgent(): void {
  if (sharing) return;
  sharing = true;
  const agent = globalAgent as unknown as { maxSockets: number; options: { lookup?: LookupFunction } };
  agent.maxSockets = 1;
  agent.options.lookup = (host, o, callback) => (lookups.get(host) ?? systemLookup)(host, o, callback);
}

function gcs(who: Who, name: ClientName, way: Way): Call {
  const limits: StorageOptions = { timeout: boundMs, retryOptions: { totalTimeout: boundMs / 1_000 } };
  const options = { apiEndpoint: way.url, projectId: "p", ...(who === "bare" && limits) };
  const plain = way.credentialsUrl === undefined ? new Storage(options) : tokenStorage(options, way.credentialsUrl);
  const storage = who === "bare" ? plain : bindGcs(plain);
  if (way.maxSockets !== undefined || way.lookup) {
    shareGlobalAgent();
    storage.interceptors.push({ request: (made) => Object.assign(made, { forever: false }) as never });
    if (way.lookup) lookups.set(new URL(way.url).hostname, way.lookup);
    else occupy(globalAgent, way.url);
  }
  return underBound(who, (tag) => {
    const file = storage.bucket("b").file(tag);
    return name === "GCS save"
      ? file.save(text, { resumable: false, validation: false })
      : file.download({ validation: false });
  });
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

/** Node's own undici shows its Agent in one place only: the dispatcher that fetch uses by default. */
function dispatcherFor({ maxSockets, lookup }: Way): object {
  const global: unknown = Reflect.get(globalThis, Symbol.for("undici.globalDispatcher.1"));
  const Dispatcher = Reflect.get(global as object, "constructor") as new (o: object) => Record<string, unknown>;
  return new Dispatcher({
    ...(maxSockets !== undefined && { connections: maxSockets }),
    ...(lookup && { connect: { lookup } }),
  });
}

function fetching(who: Who, name: ClientName, way: Way): Call {
  const dispatcher = dispatcherFor(way);
  const own = who === "bare" ? fetch : bindFetch(fetch, { maxAttempts: 3 });
  if (way.maxSockets === 1) fetch(way.url, { dispatcher } as RequestInit).catch(() => undefined);
  return underBound(who, async (tag) => {
    const post = name === "fetch POST" ? { method: "POST", body: text } : {};
    const limit = who === "bare" ? { signal: AbortSignal.timeout(boundMs) } : {};
    const response = await own(`${way.url}/${tag}`, { ...post, ...limit, dispatcher } as RequestInit);
    return response.arrayBuffer();
  });
}
