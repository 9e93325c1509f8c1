// The whole system, thin: append until durable, index, read; each beside the floor of the same run on the same directory:
// plain write + fdatasync per MiB, and a plain JSONEachRow INSERT of the same rows. Phases run one after the other, so that
// none is measured while another works. Timings are reported, never judged.
import { randomBytes } from "node:crypto";
import { mkdtemp, open, readFile, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ClickHouseClient, createClient } from "@clickhouse/client";
import { createCaptureService, type Receipt } from "@holdfast/capture-service";
import { startEmbeddedClickHouse } from "@holdfast/clickhouse-embedded";
import { createIndexer, type PackRef, packRefFromInfo } from "@holdfast/indexer";
import { acquireLease } from "@holdfast/lease-core";
import type { ObjectStore } from "@holdfast/object-store";
import { tensor } from "@holdfast/pack-format";
import { openReader } from "@holdfast/reader";
import { fsStore } from "@holdfast/storage-fs";
import type { Benchmark } from "./benchmark.js";

const MiB = 1 << 20;
const payloadBytes = 4096; // float32[32,32]
const recordsPerBatch = 256; // 1 MiB: what the floor writes between two fdatasyncs
const batchesInFlight = 4;
const recordsPerPage = 5_000;

/** Seconds that `work` takes, with what it answers. */
async function timed<T>(work: () => Promise<T>): Promise<{ seconds: number; value: T }> {
  const from = performance.now();
  const value = await work();
  return { seconds: (performance.now() - from) / 1000, value };
}

/** A fresh MiB for each write and fresh bytes for each record: nothing may be won by compressing or by comparing. */
function payloads(count: number): Uint8Array[] {
  const source = randomBytes(payloadBytes * 1024);
  return Array.from({ length: count }, (_, i) => {
    const payload = Uint8Array.prototype.slice.call(source, (i % 1024) * payloadBytes, ((i % 1024) + 1) * payloadBytes);
    new DataView(payload.buffer).setUint32(0, i);
    return payload;
  });
}

async function rawWrite(directory: string, mebibytes: number): Promise<number> {
  const chunk = randomBytes(MiB);
  const file = await open(join(directory, "raw"), "w");
  try {
    const { seconds } = await timed(async () => {
      for (let i = 0; i < mebibytes; i += 1) {
        await file.write(chunk);
        await file.datasync();
      }
    });
    return seconds;
  } finally {
    await file.close();
    await rm(join(directory, "raw"));
  }
}

const recordOf = (i: number, payload: Uint8Array) => ({
  scope: { tenant: "bench", session: "slice" },
  fields: {
    experiment_id: "bench",
    run_id: "slice",
    request_id: `request-${Math.floor(i / 100).toString()}`,
    sequence_id: "sequence",
    model_id: "model",
    model_revision: "1",
    adapter_revision: null,
    capture_policy_version: "1",
    hook_name: "mlp",
    layer_number: i % 32,
    producer_rank: 0,
    step_number: BigInt(i),
    token_start: BigInt(i),
    token_end: BigInt(i + 1),
    batch_position: 0,
    dtype: "float32",
    shape: [32, 32],
  },
  payload,
});

/** Appends everything without a catalog; answers the seconds until the last record is durable. */
async function append(directory: string, store: ObjectStore, data: readonly Uint8Array[]): Promise<number> {
  const service = createCaptureService({
    role: "capture-only",
    schema: tensor,
    store,
    spool: { directory: join(directory, "spool") },
  });
  await service.start();
  try {
    const { seconds } = await timed(async () => {
      const waiting: Promise<void>[] = [];
      for (let first = 0; first < data.length; first += recordsPerBatch) {
        const batch = data.slice(first, first + recordsPerBatch).map((payload, k) => recordOf(first + k, payload));
        const receipt: Receipt = await service.appendBatch(batch);
        waiting.push(receipt.durable());
        if (waiting.length >= batchesInFlight) await waiting.shift();
      }
      await Promise.all(waiting);
    });
    if (!(await service.flush(120_000))) throw new Error("the packs were not uploaded within 120 s");
    return seconds;
  } finally {
    await service.stop();
  }
}

async function listPacks(store: ObjectStore): Promise<PackRef[]> {
  const signal = AbortSignal.timeout(60_000);
  const packs: PackRef[] = [];
  for await (const { key } of store.list({ prefix: `v1/${tensor.name}/`, signal })) {
    const info = await store.head(key, { signal });
    const ref = info === null ? null : packRefFromInfo(store.storeId, info);
    if (ref !== null) packs.push(ref);
  }
  return packs;
}

/** Indexes the uploaded packs under a lease; answers the seconds from plan to published. */
async function index(client: ClickHouseClient, store: ObjectStore, records: number): Promise<number> {
  const keeper = await acquireLease({ client, name: tensor.name });
  try {
    const indexer = createIndexer({ client, schema: tensor, store, keeper });
    await indexer.ensureSchema();
    const packs = await listPacks(store);
    const { seconds, value } = await timed(() => indexer.index(packs));
    if (value.indexedRecords !== records) throw new Error(`${value.indexedRecords} of ${records} records were indexed`);
    return seconds;
  } finally {
    await keeper.stop();
  }
}

/**
 * The floors of the catalog: the very rows that the indexer wrote, by one plain SELECT, and by one plain INSERT into a table of
 * the same declaration. Answers the seconds of each.
 */
async function rawRows(client: ClickHouseClient) {
  await client.command({ query: `CREATE TABLE raw_record AS ${tensor.name}_record` });
  const select = await timed(async () => {
    const result = await client.query({ query: `SELECT * FROM ${tensor.name}_record`, format: "JSONEachRow" });
    return result.json();
  });
  const insert = await timed(() => client.insert({ table: "raw_record", values: select.value, format: "JSONEachRow" }));
  return { selectSeconds: select.seconds, insertSeconds: insert.seconds };
}

/** Finds every record page by page and reads every payload, checksums verified; answers the seconds of each and the bytes. */
async function findAndRead(client: ClickHouseClient, store: ObjectStore) {
  const reader = await openReader({ client, schema: tensor, store });
  try {
    const snapshot = await reader.snapshot();
    let bytes = 0;
    let searchSeconds = 0;
    let readSeconds = 0;
    let cursor: string | null = null;
    do {
      const after: { cursor?: string } = cursor === null ? {} : { cursor };
      const search = await timed(() => snapshot.search({ limit: recordsPerPage, ...after }));
      const read = await timed(async () => {
        for await (const { payload } of snapshot.read(search.value.records)) bytes += payload.length;
      });
      searchSeconds += search.seconds;
      readSeconds += read.seconds;
      cursor = search.value.cursor;
    } while (cursor !== null);
    return { bytes, searchSeconds, readSeconds };
  } finally {
    await reader[Symbol.asyncDispose]();
  }
}

/** The floor of reading: the same objects as whole files. */
async function rawRead(objects: string): Promise<{ seconds: number; value: number }> {
  const names = await readdir(objects, { recursive: true, withFileTypes: true });
  const packs = names.filter((entry) => entry.isFile() && entry.name.includes(".hfpack"));
  return timed(async () => {
    let bytes = 0;
    for (const entry of packs) bytes += (await readFile(join(entry.parentPath, entry.name))).length;
    return bytes;
  });
}

export const slice: Benchmark = async ({ quick, directory }) => {
  const records = quick ? 8_192 : 65_536;
  const mebibytes = (records * payloadBytes) / MiB;
  const folder = await mkdtemp(join(directory ?? tmpdir(), "holdfast-bench-"));
  console.log(
    `slice: ${records} records of ${payloadBytes} bytes (${mebibytes} MiB) in ${folder}, Node ${process.version}\n`,
  );
  const clickhouse = await startEmbeddedClickHouse({ dataDir: join(folder, "clickhouse") });
  const client = createClient({ url: clickhouse.url });
  try {
    const store = fsStore({ directory: join(folder, "objects") });
    const rawWriteSeconds = await rawWrite(folder, mebibytes);
    const appendSeconds = await append(folder, store, payloads(records));
    const indexSeconds = await index(client, store, records);
    const raw = await rawRows(client);
    const found = await findAndRead(client, store);
    const readFloor = await rawRead(join(folder, "objects"));
    if (found.bytes !== records * payloadBytes) throw new Error(`${found.bytes} bytes were read back`);
    return report({
      records,
      payloadMB: (records * payloadBytes) / 1e6,
      rawWriteMB: (mebibytes * MiB) / 1e6,
      rawReadMB: readFloor.value / 1e6,
      seconds: {
        rawWrite: rawWriteSeconds,
        append: appendSeconds,
        index: indexSeconds,
        rawInsert: raw.insertSeconds,
        search: found.searchSeconds,
        rawSelect: raw.selectSeconds,
        read: found.readSeconds,
        rawRead: readFloor.seconds,
      },
    });
  } finally {
    await client.close();
    await clickhouse.stop();
    await rm(folder, { recursive: true, force: true });
  }
};

type Phase = "rawWrite" | "append" | "index" | "rawInsert" | "search" | "rawSelect" | "read" | "rawRead";

interface Measured {
  readonly records: number;
  readonly payloadMB: number;
  readonly rawWriteMB: number;
  readonly rawReadMB: number;
  readonly seconds: Readonly<Record<Phase, number>>;
}

function report(m: Measured): Record<string, number> {
  const { records, payloadMB, seconds } = m;
  const perSecond = (phase: Phase): number => Math.round(records / seconds[phase]);
  const r = {
    appendPerSecond: perSecond("append"),
    readMBps: round(payloadMB / seconds.read),
    appendMBps: round(payloadMB / seconds.append),
    indexRowsPerSecond: perSecond("index"),
    searchRowsPerSecond: perSecond("search"),
    rawWriteMBps: round(m.rawWriteMB / seconds.rawWrite),
    rawInsertRowsPerSecond: perSecond("rawInsert"),
    rawSelectRowsPerSecond: perSecond("rawSelect"),
    rawReadMBps: round(m.rawReadMB / seconds.rawRead),
    ratioToFloor: round(payloadMB / seconds.append / (m.rawWriteMB / seconds.rawWrite)),
    ratioToRawInsert: round(seconds.rawInsert / seconds.index),
  };
  const n = (value: number): string => value.toLocaleString("en-US");
  print([
    ["", "Holdfast", "floor of this run", "ratio"],
    ["append -> durable", `${n(r.appendPerSecond)} records/s`, "", ""],
    ["", `${n(r.appendMBps)} MB/s`, `${n(r.rawWriteMBps)} MB/s  write + fdatasync per MiB`, n(r.ratioToFloor)],
    [
      "index",
      `${n(r.indexRowsPerSecond)} rows/s`,
      `${n(r.rawInsertRowsPerSecond)} rows/s  one JSONEachRow INSERT`,
      n(r.ratioToRawInsert),
    ],
    [
      "search, all pages",
      `${n(r.searchRowsPerSecond)} rows/s`,
      `${n(r.rawSelectRowsPerSecond)} rows/s  one SELECT *`,
      n(round(seconds.rawSelect / seconds.search)),
    ],
    [
      "read, verified",
      `${n(r.readMBps)} MB/s`,
      `${n(r.rawReadMBps)} MB/s  whole files`,
      n(round(r.readMBps / r.rawReadMBps)),
    ],
  ]);
  return r;
}

function print(rows: readonly (readonly string[])[]): void {
  const widths = [0, 1, 2, 3].map((c) => Math.max(...rows.map((row) => row[c]?.length ?? 0)));
  for (const row of rows) console.log(`  ${row.map((text, c) => text.padEnd(widths[c] ?? 0)).join("  ")}`.trimEnd());
  console.log();
}

const round = (n: number): number => (n >= 100 ? Math.round(n) : Number(n.toPrecision(3)));
