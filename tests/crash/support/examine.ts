// Reads a catalog and its store in a process of its own and reports each captureId with the number of times it is there.
import { ClickHouseLogLevel, createClient } from "@clickhouse/client";
import { readRecords } from "@holdfast/pack-format";
import { openReader } from "@holdfast/reader";
import { fsStore } from "@holdfast/storage-fs";
import type { Findings } from "./boundaries.js";
import { crashSchema, payloadOf } from "./schema.js";

type Question = { readonly catalogUrl: string; readonly schemaName: string; readonly storeDirectory: string };

/** Ends what hangs. */
const hangMs = 1_800_000;

const clientOf = (url: string) =>
  createClient({ url, request_timeout: hangMs, log: { level: ClickHouseLogLevel.OFF } });

function check(captureId: string, payload: Uint8Array): void {
  if (Buffer.compare(payload, payloadOf(captureId)) !== 0)
    throw new Error(`the payload of ${captureId} is not what was appended`);
}

async function visibleIn({ catalogUrl, schemaName, storeDirectory }: Question): Promise<Record<string, number>> {
  const client = clientOf(catalogUrl);
  const store = fsStore({ directory: storeDirectory, storeId: "crash" });
  const reader = await openReader({ client, schema: crashSchema(schemaName), store, requestTimeoutMs: hangMs });
  const snapshot = await reader.snapshot();
  const counts: Record<string, number> = {};
  let cursor: string | null = null;
  do {
    const page = await snapshot.search({ limit: 1000, ...(cursor === null ? {} : { cursor }) });
    for await (const { record, payload } of snapshot.read(page.records)) {
      check(record.captureId, payload);
      counts[record.captureId] = (counts[record.captureId] ?? 0) + 1;
    }
    cursor = page.cursor;
  } while (cursor !== null);
  await client.close();
  return counts;
}

async function storedIn({ schemaName, storeDirectory }: Question): Promise<Record<string, number>> {
  const store = fsStore({ directory: storeDirectory, storeId: "crash" });
  const { signal } = new AbortController();
  const counts: Record<string, number> = {};
  for await (const { key, size } of store.list({ prefix: `v1/${schemaName}/`, signal })) {
    if (size === 0) continue;
    const { bytes } = await store.get(key, { signal });
    const source = { size, read: async (offset: number, length: number) => bytes.subarray(offset, offset + length) };
    for await (const { captureId, payload } of readRecords(source)) {
      check(captureId, payload);
      counts[captureId] = (counts[captureId] ?? 0) + 1;
    }
  }
  return counts;
}

async function publishedIn({ catalogUrl, schemaName }: Question): Promise<Record<string, number>> {
  const client = clientOf(catalogUrl);
  const query = `SELECT object_key, toUInt32(count()) AS times FROM ${schemaName}_snapshot_manifest
    WHERE (index_version, publish_id) IN (SELECT index_version, publish_id FROM ${schemaName}_index_watermark) GROUP BY object_key`;
  const rows = await (
    await client.query({ query, format: "JSONEachRow" })
  ).json<{ object_key: string; times: number }>();
  await client.close();
  return Object.fromEntries(rows.map(({ object_key, times }) => [object_key, times]));
}

process.once("message", (question: Question) => {
  void (async () => {
    const [visible, stored, published] = [visibleIn(question), storedIn(question), publishedIn(question)];
    const findings: Findings = { visible: await visible, stored: await stored, published: await published };
    process.send?.(findings, () => process.disconnect());
  })().catch((error: unknown) => {
    process.stderr.write(`${error instanceof Error ? (error.stack ?? "") : String(error)}\n`);
    process.exit(1);
  });
});
