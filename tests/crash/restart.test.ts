// Goal: a restart right after a kill waits for the dead predecessor's lease and succeeds. Method: a publisher in a process of its
// own is killed while it captures; its successor starts at once, here, on the same spool.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ClickHouseLogLevel, createClient, type ClickHouseClient } from "@clickhouse/client";
import { createCaptureService } from "../../packages/capture-service/src/index.js";
import { Lateness } from "@holdfast-private/tests-machine";
import { startEmbeddedClickHouse, type EmbeddedClickHouse } from "@holdfast/clickhouse-embedded";
import type { ObjectStore } from "@holdfast/object-store";
import { openReader } from "@holdfast/reader";
import { fsStore } from "@holdfast/storage-fs";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Orders, Report } from "./support/boundaries.js";
import { crashSchema } from "./support/schema.js";
import { Scripts } from "./support/scripts.js";

/** Ends what hangs. */
const hangMs = 300_000;
let scripts: Scripts;
let engine: EmbeddedClickHouse;
let directory: string;
beforeAll(async () => {
  scripts = await Scripts.build("victim");
  directory = await mkdtemp(join(tmpdir(), "holdfast-restart-"));
  engine = await startEmbeddedClickHouse();
});
afterAll(async () => {
  await engine.stop();
  await scripts[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

it("CS-07 a restart within T of a killed predecessor waits and succeeds; what was owed is indexed once", async () => {
  await using lateness = await Lateness.start(engine);
  const ttlMs = Math.round(3_000 * Math.min(10, await lateness.pace()));
  const lease = { ttlMs, publishTimeoutMs: Math.round(ttlMs / 4) };
  const spoolDirectory = join(directory, "spool");
  const storeDirectory = join(directory, "store");
  const acknowledged = await killedPublisher({ lease, spoolDirectory, storeDirectory });
  const killedAt = performance.now();

  const schema = crashSchema("restart");
  const store = fsStore({ directory: storeDirectory, storeId: "crash" });
  const catalog = { url: engine.url, requestTimeoutMs: hangMs };
  const common = { schema, store, catalog, spool: { directory: spoolDirectory } };
  const service = createCaptureService({ ...common, lease, publishIntervalMs: 50, reconcile: { onStart: false } });
  await service.start();
  const tookMs = performance.now() - killedAt;
  // The row lives at most T from the last renewal; then two ticks of T / 6 and a claim of at most T / 3.
  expect(tookMs).toBeLessThan(ttlMs + (2 * ttlMs) / 6 + ttlMs / 3 + (await lateness.sinceMs(killedAt)));
  expect(service.status().lease).toMatchObject({ state: "held" });
  await service.stop();
  const next = createCaptureService({ ...common, lease: { ttlMs: 60_000, startWaitMs: hangMs } });
  await next.start();
  expect(await next.flush(hangMs)).toBe(true);
  await next.stop();

  const client = createClient({ url: engine.url, request_timeout: hangMs, log: { level: ClickHouseLogLevel.OFF } });
  const held = await leases(client);
  expect(held.length).toBeGreaterThan(2);
  for (const [i, { acquired }] of held.entries()) expect(acquired).toBeGreaterThanOrEqual(held[i - 1]?.ended ?? 0n);
  const seen = await visible(client, store);
  await client.close();
  expect(new Set(seen).size).toBe(seen.length);
  expect(acknowledged.filter((id) => !seen.includes(id))).toEqual([]);
});

/** A publisher that is killed once 300 records are acknowledged, while it goes on; returns their ids. */
async function killedPublisher(
  o: Pick<Orders, "lease" | "spoolDirectory" | "storeDirectory">,
): Promise<readonly string[]> {
  const { child, stderr, closed } = scripts.start("victim");
  const acknowledged: string[] = [];
  const busy = new Promise<void>((resolve) => {
    child.on("message", (report: Report) => {
      if (report.kind !== "acknowledged") return;
      acknowledged.push(...report.ids);
      if (acknowledged.length >= 300) resolve();
    });
  });
  const orders: Orders = {
    ...o,
    ...{ role: "publisher", catalogUrl: engine.url, schemaName: "restart", name: "restart" },
    ...{ boundary: null, occurrence: 1, afterGroups: 0, last: false },
  };
  child.send(orders);
  const died = closed.then(() => Promise.reject(new Error(`the victim ended by itself: ${stderr()}`)));
  await Promise.race([busy, died]);
  child.kill("SIGKILL");
  await closed;
  return acknowledged;
}

/** The leases that were held, in their order, by the server's clock: each ends as the row of its newest term says. */
async function leases(client: ClickHouseClient): Promise<{ acquired: bigint; ended: bigint }[]> {
  const terms = `SELECT lease_id, term, min(acquired_at_ns) AS first, min(expires_at_ns) AS last
    FROM holdfast_publisher_lease WHERE name = 'restart' GROUP BY lease_id, term`;
  const query = `SELECT toString(min(first)) AS acquired, toString(argMax(last, term)) AS ended
    FROM (${terms}) GROUP BY lease_id ORDER BY min(first)`;
  const rows = await (await client.query({ query, format: "JSONEachRow" })).json<{ acquired: string; ended: string }>();
  return rows.map(({ acquired, ended }) => ({ acquired: BigInt(acquired), ended: BigInt(ended) }));
}

/** The captureId of each record that the catalog shows. */
async function visible(client: ClickHouseClient, store: ObjectStore): Promise<string[]> {
  const reader = await openReader({ client, schema: crashSchema("restart"), store, requestTimeoutMs: hangMs });
  const snapshot = await reader.snapshot();
  const seen: string[] = [];
  for (let cursor: string | null = null; ;) {
    const page = await snapshot.search({ limit: 1000, ...(cursor === null ? {} : { cursor }) });
    seen.push(...page.records.map(({ captureId }) => captureId));
    cursor = page.cursor;
    if (cursor === null) return seen;
  }
}
