// Goal: a capture service whose store is a bucket of Google Cloud Storage that stalls, or loses its answers. Method: gcsStore on testkit's fake,
// a fault proxy between the two, and for each test a spool and a tenant of its own in one catalog. What the bucket holds is looked up in the fake.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient } from "@clickhouse/client";
import { createCaptureService, defineCaptureSchema, type CaptureService } from "@holdfast/capture-service";
import { openTestClickHouse, type TestClickHouse } from "@holdfast-private/tests-clickhouse";
import { Lateness, until } from "@holdfast-private/tests-machine";
import { openReader } from "@holdfast/reader";
import { gcsStore, type ResumableOptions } from "@holdfast/storage-gcs";
import {
  gcsObjects,
  startFaultProxy,
  startFaultServer,
  type FaultProxy,
  type FaultServer,
  type GcsObjects,
  type LoggedRequest,
  type ProxiedRequest,
  type ProxyFault,
} from "@holdfast/testkit";
import { afterAll, afterEach, beforeAll, expect, it, onTestFinished } from "vitest";

const notes = defineCaptureSchema({ name: "notes", version: 1, fields: { step: "UInt64" }, orderBy: ["step"] });
type Notes = CaptureService<typeof notes>;

/** A bound that is never met: what waits for it hangs. */
const foreverMs = 24 * 3_600_000;
/** A stop that waits for nothing, beside what the machine is late. */
const promptMs = 2_000;
const inSession: ResumableOptions = { thresholdBytes: 0, chunkBytes: 256 * 1024 };

let clickhouse: TestClickHouse;
let database: string;
let lateness: Lateness;
let directory: string;
let gcs: GcsObjects;
let server: FaultServer;
let proxy: FaultProxy;
beforeAll(async () => {
  clickhouse = await openTestClickHouse({ password: "gcs" });
  database = await clickhouse.database();
  lateness = await Lateness.start(clickhouse);
  directory = await mkdtemp(join(tmpdir(), "holdfast-gcs-"));
  gcs = gcsObjects();
  server = await startFaultServer({ otherwise: gcs.answer });
  proxy = await startFaultProxy({ target: { port: server.port } });
});
afterEach(() => {
  proxy.clear();
  proxy.release();
});
afterAll(async () => {
  await proxy[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
  await lateness[Symbol.asyncDispose]();
  await clickhouse.stop();
  await rm(directory, { recursive: true, force: true });
});

const storeAt = (apiEndpoint: string, resumable: ResumableOptions = {}) =>
  gcsStore({ apiEndpoint, bucket: "captures", storeId: "captures", allowHttp: true, resumable });

/** A service of the spool `name`, started; it is stopped at the end of the test. */
async function startService(
  name: string,
  o: { timeoutMs?: number; resumable?: ResumableOptions } = {},
): Promise<Notes> {
  const { url, username, password } = clickhouse;
  const service = createCaptureService({
    schema: notes,
    store: storeAt(proxy.url, o.resumable),
    catalog: { url, username, password, database, requestTimeoutMs: foreverMs },
    // No machine is so slow that it loses this one.
    lease: { ttlMs: 600_000, publishTimeoutMs: 60_000 },
    publishIntervalMs: 100,
    upload: { timeoutMs: o.timeoutMs ?? foreverMs },
    spool: { directory: join(directory, name), maxLingerMs: 100 },
  });
  onTestFinished(() => service.stop());
  for (;;) {
    try {
      await service.start();
      return service;
    } catch (error) {
      // A claim of the schema lease whose two statements take over 2.5 s (a slow machine) is left to expire, and the start reports it.
      if ((error as { code?: unknown }).code !== "CATALOG_BUSY") throw error;
    }
  }
}

async function appendDurably(service: Notes, tenant: string): Promise<void> {
  const payload = Buffer.from(`payload of ${tenant}, and more of it `.repeat(100));
  const record = { scope: { tenant, session: "run-1" }, fields: { step: 7n }, payload };
  await (await service.append(record)).durable();
}

/** How many records of a tenant readers see; their payloads are read from the bucket, by a store that nothing stands before. */
async function visible(tenant: string): Promise<number> {
  const { url, username, password } = clickhouse;
  const client = createClient({ url, username, password, database });
  try {
    await using reader = await openReader({ client, database, schema: notes, store: storeAt(server.url) });
    const snapshot = await reader.snapshot();
    const { records } = await snapshot.search({ where: { tenant }, limit: 10 });
    let seen = 0;
    for await (const { payload } of snapshot.read(records)) {
      expect(Buffer.from(payload).toString()).toContain(`payload of ${tenant}, and more`);
      seen += 1;
    }
    return seen;
  } finally {
    await client.close();
  }
}

/** The requests that meet a fault of this kind from now on. */
function meeting(kind: ProxyFault["kind"]): () => readonly LoggedRequest[] {
  const seen = proxy.requests.length;
  return () => proxy.requests.slice(seen).filter(({ faults }) => faults.includes(kind));
}

/** Packs, as the bucket holds them; a number of the spool that no pack used is an object without bytes. */
const packs = (): number => [...gcs.objects.values()].filter(({ bytes }) => bytes.length > 0).length;

const isUpload = ({ method, url }: ProxiedRequest): boolean => method === "POST" && url.startsWith("/upload/");
const isChunk = ({ method, url }: ProxiedRequest): boolean => method === "PUT" && url.startsWith("/upload/");

async function stallsOnce(how: string, fault: ProxyFault): Promise<void> {
  const before = packs();
  const tenant = `stalls ${how}`;
  const service = await startService(tenant, { timeoutMs: 3_000 });
  const stalled = meeting(fault.kind);
  proxy.use({ match: isUpload, times: 1, fault });
  await appendDurably(service, tenant);
  await until("the upload stalls", () => stalled().length === 1);
  await until("its bound has ended it", () => service.status().uploadFailures > 0);
  expect(service.status()).toMatchObject({ lastError: expect.stringContaining("upload.timeoutMs") as string });
  const connection = proxy.connections.find(({ number }) => number === stalled()[0]!.connection)!;
  await until("its socket is gone", () => connection.clientLeftAt !== undefined);
  expect(await service.flush(foreverMs)).toBe(true);
  expect(packs()).toBe(before + 1);
  expect(await visible(tenant)).toBe(1);
  await service.stop();
}

const stalling = "an upload that stalls %s is ended by its bound, and another one succeeds";
it.each<[string, ProxyFault]>([["before a byte of it has arrived", { kind: "stall" }]])(stalling, stallsOnce);
it.each<[string, ProxyFault]>([
  ["within its bytes", { kind: "stall", afterBytes: ({ headBytes }) => headBytes + 500 }],
  ["when only its answer is missing", { kind: "stall-answer" }],
])(stalling, { tags: ["slow"] }, stallsOnce);

type How = [string, ResumableOptions, typeof isUpload];
const inOneRequest: How = ["in one request", {}, isUpload];
const throughASession: How = ["through a session", inSession, isChunk];

async function stopsMeanwhile(...[how, resumable, match]: How): Promise<void> {
  const before = packs();
  const tenant = `stops ${how}`;
  const service = await startService(tenant, { resumable });
  const stalled = meeting("stall");
  const clear = proxy.use({ match, fault: { kind: "stall", afterBytes: ({ headBytes }) => headBytes + 500 } });
  await appendDurably(service, tenant);
  await until("the upload stalls", () => stalled().length > 0);
  const from = performance.now();
  await service.stop();
  expect(performance.now() - from).toBeLessThan(promptMs + (await lateness.sinceMs(from)));
  expect(service.status()).toMatchObject({ uploadFailures: 0, cancelledUploads: 1, spool: { packs: 1 } });
  // Deleted in the background: nothing of an upload that was given up is kept at Google.
  await until("no session is open", () => gcs.sessions().every(({ state }) => state !== "open"));
  expect(packs()).toBe(before);
  clear();
  const next = await startService(tenant, { resumable });
  expect(await next.flush(foreverMs)).toBe(true);
  expect(packs()).toBe(before + 1);
  expect(await visible(tenant)).toBe(1);
  await next.stop();
}

const stopping = "a stop while an upload %s stalls is prompt, and the record is uploaded by the next service";
it.each([throughASession])(stopping, stopsMeanwhile);
it.each([inOneRequest])(stopping, { tags: ["slow"] }, stopsMeanwhile);

async function losesItsAnswer(...[how, resumable, match]: How): Promise<void> {
  const before = packs();
  const tenant = `loses ${how}`;
  const service = await startService(tenant, { resumable });
  const lost = meeting("cut-answer");
  proxy.use({ match, times: 1, fault: { kind: "cut-answer", afterBytes: 0, by: "rst" } });
  await appendDurably(service, tenant);
  expect(await service.flush(foreverMs)).toBe(true);
  expect(lost()).toHaveLength(1);
  // The store finds its own object by its write id, so the service has no failure to count.
  expect(service.status()).toMatchObject({ uploadFailures: 0, uploadedPacks: 1, setAside: [] });
  expect(packs()).toBe(before + 1);
  expect(await visible(tenant)).toBe(1);
  await service.stop();
}

const losing = "an upload %s whose answer is lost is one object, which is visible once";
it.each([throughASession])(losing, losesItsAnswer);
it.each([inOneRequest])(losing, { tags: ["slow"] }, losesItsAnswer);
