// Goal: the whole story through the public packages alone: a record goes in, is acknowledged, is found by its fields
// and comes back with its bytes; and again after the service was left without a word. Method: real files, a real server
// (the embedded engine, or the one that HOLDFAST_CLICKHOUSE_URL names), an oracle in plain SQL.
import { createHash } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient, type ClickHouseClient } from "@clickhouse/client";
import { createCaptureService, defineCaptureSchema } from "@holdfast/capture-service";
import { openTestClickHouse, type TestClickHouse } from "@holdfast-private/tests-clickhouse";
import { openReader } from "@holdfast/reader";
import { fsStore } from "@holdfast/storage-fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const frames = defineCaptureSchema({
  name: "frames",
  version: 1,
  fields: { sensor: "LowCardinality(String)", step: "UInt64", shape: "Array(UInt32)" },
  orderBy: ["sensor", "step"],
});

const hash = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");

/** Bytes that differ for each step and in length. */
function payloadOf(step: number): Uint8Array {
  return Uint8Array.from({ length: 1 + ((step * 37) % 5000) }, (_, i) => (step * 31 + i * 7) % 256);
}

describe("a record goes in and is found again", () => {
  let database: string;
  let server: TestClickHouse;
  let client: ClickHouseClient;
  let directory: string;

  beforeAll(async () => {
    server = await openTestClickHouse({ password: "story" });
    const { url, username, password } = server;
    database = await server.database();
    client = createClient({ url, username, password, database });
    directory = await mkdtemp(join(tmpdir(), "holdfast-story-"));
  });
  afterAll(async () => {
    await client.close();
    await server.stop();
    await rm(directory, { recursive: true, force: true });
  });

  const store = () => fsStore({ directory: join(directory, "packs"), storeId: "story" });
  const open = () =>
    createCaptureService({
      schema: frames,
      store: store(),
      catalog: {
        url: server.url,
        username: server.username,
        password: server.password,
        database,
        requestTimeoutMs: 600_000,
      },
      // No machine is so slow that it loses this one, and nobody waits for it to end.
      lease: { ttlMs: 600_000, publishTimeoutMs: 60_000 },
      spool: { directory: join(directory, "spool"), maxPackBytes: 256 * 1024 },
    });

  async function capture(steps: readonly number[]): Promise<void> {
    const service = open();
    await service.start();
    const receipts = await Promise.all(
      steps.map((step) =>
        service.append({
          scope: { tenant: "acme", session: "story" },
          fields: { sensor: step % 2 === 0 ? "left" : "right", step: BigInt(step), shape: [step, 2] },
          payload: payloadOf(step),
        }),
      ),
    );
    await Promise.all(receipts.map((receipt) => receipt.durable()));
    expect(await service.flush(600_000)).toBe(true);
    await service.stop();
  }

  it("CT-28 what was appended is what plain SQL and the reader find, bytes included", async () => {
    const steps = Array.from({ length: 300 }, (_, i) => i);
    await capture(steps);
    const reader = await openReader({ client, database, schema: frames, store: store() });
    const snapshot = await reader.snapshot();
    const found = await snapshot.search({ where: { tenant: "acme" }, orderBy: ["step"], limit: 1000 });
    expect(found.cursor).toBeNull();
    expect(found.records.map((r) => Number(r.fields.step))).toEqual(steps);

    const sql = "SELECT DISTINCT capture_id FROM frames_record ORDER BY capture_id";
    const rows = await (await client.query({ query: sql, format: "JSONEachRow" })).json<{ capture_id: string }>();
    expect(found.records.map((r) => r.captureId).sort()).toEqual(rows.map((r) => r.capture_id));

    const seen = new Map<number, string>();
    for await (const { record, payload } of snapshot.read(found.records)) {
      seen.set(Number(record.fields.step), hash(payload));
    }
    expect(seen).toEqual(new Map(steps.map((step) => [step, hash(payloadOf(step))])));
    await reader[Symbol.asyncDispose]();
  });

  it("CT-29 a snapshot that was taken before a publish does not change by it", async () => {
    const reader = await openReader({ client, database, schema: frames, store: store() });
    const before = await reader.snapshot();
    const count = await before.count();
    await capture([1000, 1001]);
    expect(await before.count()).toBe(count);
    const after = await reader.snapshot();
    expect(after.version).toBeGreaterThan(before.version);
    expect(await after.count()).toBe(count + 2);
    const left = await after.search({ where: { sensor: "left", step: { gte: 1000n } } });
    expect(left.records.map((r) => r.fields.step)).toEqual([1000n]);
    await reader[Symbol.asyncDispose]();
  });
});
