import type { ClickHouseClient } from "@clickhouse/client";
import { type Clock, within } from "@holdfast/deadline-http";
import { bind } from "@holdfast/deadline-http/clickhouse";
import { membersStatement, snapshotParameter, tableReferences } from "@holdfast/indexer/catalog";
import { ClickHouseLeaseTable, defaultLeaseTable, leaseConfig, type LeaseOptions } from "@holdfast/lease-core";
import { memoryStore } from "@holdfast/object-store";
import { bytes, cell, count, counted, duration, facts, json, timeOfNs } from "../format.js";
import type { Io } from "../io.js";
import { openClient, openReader, requireCatalog } from "../open.js";
import { loadSchema } from "../schema.js";
import { type CatalogSettings, type ConnectionFlags, readSettings, type Settings } from "../settings.js";

/** Flags of `holdfast status`. */
export interface StatusFlags extends ConnectionFlags {
  readonly json?: boolean;
}

/** What the catalog and the lease say, read one after the other: numbers of one moment only while nothing is published. */
export interface CatalogStatus {
  readonly catalog: string;
  readonly version: bigint;
  readonly publishedAtNs: bigint | null;
  readonly records: number;
  readonly packs: number;
  readonly packBytes: bigint;
  readonly writers: number;
  readonly lease: LeaseHead | null;
  /** The ClickHouse server's clock. */
  readonly serverNowNs: bigint;
}

/** The newest term of the publisher lease. */
export interface LeaseHead {
  readonly term: bigint;
  readonly holder: string;
  readonly expiresAtNs: bigint;
}

/** `holdfast status`: what is visible, and who may publish. */
export async function status(flags: StatusFlags, io: Io): Promise<void> {
  const settings = await readSettings(flags, io);
  const catalog = requireCatalog(settings);
  const client = openClient(catalog);
  try {
    const found = await readStatus(client, settings, catalog, io);
    io.out.write(flags.json === true ? `${json(found)}\n` : statusText(found, catalog));
  } finally {
    await client.close();
  }
}

async function readStatus(
  client: ClickHouseClient,
  settings: Settings,
  catalog: CatalogSettings,
  io: Io,
): Promise<CatalogStatus> {
  const schema = await loadSchema(settings.schema);
  const { requestTimeoutMs, database } = catalog;
  // Counting needs no store; the reader wants one all the same, and an empty one in memory can answer nothing wrongly.
  const store = memoryStore();
  const reader = await openReader({ client, database, schema, store, requestTimeoutMs }, io);
  const snapshot = await reader.snapshot({ signal: io.signal });
  const records = await snapshot.count({ signal: io.signal });
  const bound = {
    name: "holdfast status",
    knobs: { "catalog.requestTimeoutMs": requestTimeoutMs },
    signal: io.signal,
    clock: io.clock,
  };
  return within(
    requestTimeoutMs,
    async () => {
      const bounded = bind(client, { clock: io.clock, requestTimeoutMs });
      const packs = await readPacks(bounded, catalog, schema.name, snapshot.version);
      const lease = await readLease({ client, bounded }, catalog, schema.name, settings.lease, io.clock);
      return { catalog: schema.name, version: snapshot.version, records, ...packs, ...lease };
    },
    bound,
  );
}

async function rows<T>(client: ClickHouseClient, query: string, query_params: Record<string, unknown>): Promise<T[]> {
  return (await client.query({ query, query_params, format: "JSONEachRow" })).json<T>();
}

type PackCounts = Pick<CatalogStatus, "packs" | "packBytes" | "writers" | "publishedAtNs">;

async function readPacks(
  client: ClickHouseClient,
  o: CatalogSettings,
  catalog: string,
  version: bigint,
): Promise<PackCounts> {
  const tables = tableReferences(catalog, o.database);
  const query =
    `SELECT count() AS packs, toString(sum(object_bytes)) AS bytes, uniqExact(writer_id) AS writers, ` +
    `(SELECT toString(max(published_at_ns)) FROM ${tables.watermark} WHERE index_version <= {${snapshotParameter}:UInt64}) AS published ` +
    `FROM ${tables.inventory} FINAL WHERE (store_id, pack_id) IN (SELECT store_id, pack_id FROM (${membersStatement(tables)}))`;
  type Row = { packs: string; bytes: string; writers: string; published: string };
  const [row] = await rows<Row>(client, query, { [snapshotParameter]: version.toString() });
  if (row === undefined) return { packs: 0, packBytes: 0n, writers: 0, publishedAtNs: null };
  const publishedAtNs = version === 0n ? null : BigInt(row.published);
  return { packs: Number(row.packs), packBytes: BigInt(row.bytes), writers: Number(row.writers), publishedAtNs };
}

async function readLease(
  { client, bounded }: { client: ClickHouseClient; bounded: ClickHouseClient },
  o: CatalogSettings,
  catalog: string,
  lease: LeaseOptions,
  clock: Clock,
): Promise<Pick<CatalogStatus, "lease" | "serverNowNs">> {
  const { database } = o;
  const there = await rows<{ tables: string; now: string }>(
    bounded,
    "SELECT toString(count()) AS tables, toString(toUnixTimestamp64Nano(now64(9))) AS now " +
      "FROM system.tables WHERE database = {database:String} AND name = {table:String}",
    { database, table: defaultLeaseTable },
  );
  const serverNowNs = BigInt(there[0]?.now ?? "0");
  if (there[0]?.tables !== "1") return { lease: null, serverNowNs };
  const table = new ClickHouseLeaseTable({ client, database, config: leaseConfig({ lease }), clock });
  const { term, leases, nowNs } = await table.readHead(catalog);
  const [head] = leases; // of several ids at one term the first counts
  if (head === undefined) return { lease: null, serverNowNs };
  return { lease: { term, holder: head.holder, expiresAtNs: head.expiresAtNs }, serverNowNs: nowNs };
}

const msBetween = (from: bigint, to: bigint): number => Number((to - from) / 1_000_000n);

/** The status as text. */
export function statusText(s: CatalogStatus, o: Pick<CatalogSettings, "url" | "database">): string {
  const published =
    s.publishedAtNs === null
      ? "nothing was published yet"
      : `published ${duration(msBetween(s.publishedAtNs, s.serverNowNs))} ago (${timeOfNs(s.publishedAtNs)} UTC)`;
  return facts([
    ["catalog", `${s.catalog} in database ${o.database} at ${o.url}`],
    ["snapshot", `version ${s.version.toString()}, ${published}`],
    ["records", count(s.records)],
    ["packs", `${count(s.packs)}, ${bytes(s.packBytes)}, of ${counted(s.writers, "writer")}`],
    ["lease", leaseText(s.lease, s.serverNowNs)],
  ]);
}

function leaseText(lease: LeaseHead | null, nowNs: bigint): string {
  if (lease === null) return "never taken";
  const term = `term ${lease.term.toString()}`;
  const left = msBetween(nowNs, lease.expiresAtNs);
  const holder = cell(lease.holder, 120);
  if (left > 0) return `held by ${holder} for another ${duration(left)} unless renewed (${term})`;
  return `free for ${duration(-left)}; last held by ${holder} (${term})`;
}
