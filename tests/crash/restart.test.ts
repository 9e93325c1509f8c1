// Goal: a restart right after a kill waits for the dead predecessor's lease and succeeds. Method: a publisher in a process of its
// own is killed while it captures; its successor starts at once, here, on the same spool.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient } from "@clickhouse/client";
import { createCaptureService } from "../../packages/capture-service/src/index.js";
import { Lateness } from "../../packages/capture-service/test/support/lateness.js";
import { startEmbeddedClickHouse, type EmbeddedClickHouse } from "@holdfast/clickhouse-embedded";
import { openReader } from "@holdfast/reader";
import { fsStore } from "@holdfast/storage-fs";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Orders, Report } from "./support/boundaries.js";
import { exited, startScript } from "./support/process.js";
import { crashSchema } from "./support/schema.js";

const ttlMs = 3_000;
let engine: EmbeddedClickHouse;
let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "holdfast-restart-"));
  engine = await startEmbeddedClickHouse();
});
afterAll(async () => {
  await engine.stop();
  await rm(directory, { recursive: true, force: true });
});

it("CS-07 a restart within T of a killed predecessor waits and succeeds; what was owed is indexed once", async () => {
  const orders: Orders = {
    role: "publisher",
    catalogUrl: engine.url,
    schemaName: "restart",
    spoolDirectory: join(directory, "spool"),
    storeDirectory: join(directory, "store"),
    boundary: null,
    occurrence: 1,
    ttlMs,
    name: "restart",
    last: false,
  };
  const { child } = startScript("victim");
  const acknowledged: string[] = [];
  const busy = new Promise<void>((resolve) => {
    child.on("message", (report: Report) => {
      if (report.kind !== "acknowledged") return;
      acknowledged.push(...report.ids);
      if (acknowledged.length >= 300) resolve();
    });
  });
  child.send(orders);
  await busy;
  child.kill("SIGKILL");
  await exited(child);
  const killedAt = performance.now();
  const lateness = new Lateness({ url: engine.url });
  const schema = crashSchema("restart");
  const store = fsStore({ directory: orders.storeDirectory, storeId: "crash" });
  const service = createCaptureService({
    schema,
    store,
    catalog: { url: engine.url, requestTimeoutMs: 20_000 },
    lease: { ttlMs, publishTimeoutMs: 800 },
    publishIntervalMs: 50,
    reconcile: { onStart: false },
    spool: { directory: orders.spoolDirectory },
  });
  await service.start();
  // The row lives at most T from the last renewal; then two ticks of T / 6 and a claim of at most T / 3.
  expect(performance.now() - killedAt).toBeLessThan(ttlMs + (2 * ttlMs) / 6 + ttlMs / 3 + lateness.sinceMs(killedAt));
  await lateness[Symbol.asyncDispose]();
  expect(service.status().lease).toMatchObject({ state: "held" });
  await service.stop();
  const next = createCaptureService({
    schema,
    store,
    catalog: { url: engine.url },
    spool: { directory: orders.spoolDirectory },
  });
  await next.start();
  expect(await next.flush(60_000)).toBe(true);
  await next.stop();
  const client = createClient({ url: engine.url });
  const reader = await openReader({ client, schema, store });
  const snapshot = await reader.snapshot();
  const seen: string[] = [];
  for (let cursor: string | null = null; ;) {
    const page = await snapshot.search({ limit: 1000, ...(cursor === null ? {} : { cursor }) });
    seen.push(...page.records.map(({ captureId }) => captureId));
    cursor = page.cursor;
    if (cursor === null) break;
  }
  await client.close();
  expect(new Set(seen).size).toBe(seen.length);
  expect(acknowledged.filter((id) => !seen.includes(id))).toEqual([]);
});
