import type { ClickHouseClient } from "@clickhouse/client";
import { within } from "@holdfast/deadline-http";
import { bind } from "@holdfast/deadline-http/clickhouse";
import { membersStatement, snapshotParameter, tableReferences } from "@holdfast/indexer/catalog";
import { readSchemaLease, type SchemaLeaseReport } from "@holdfast/lease-core";
import { memoryStore } from "@holdfast/object-store";
import { bytes, count, counted, duration, facts, json, timeOfNs } from "../format.js";
import type { Io } from "../io.js";
import { openClient, openReader, requireCatalog } from "../open.js";
import { loadSchema } from "../schema.js";
import { type CatalogSettings, type ConnectionFlags, readSettings, type Settings } from "../settings.js";
import { type LeaseHead, publisherLeaseText, readPublisherLease, schemaLeaseText } from "./status-leases.js";

/** Flags of `holdfast status`. */
export interface StatusFlags extends ConnectionFlags {
  readonly json?: boolean;
}

/** What the catalog and its leases say, read one after the other: numbers of one moment only while nothing is published. */
export interface CatalogStatus {
  readonly catalog: string;
  readonly version: bigint;
  readonly publishedAtNs: bigint | null;
  readonly records: number;
  readonly packs: number;
  readonly packBytes: bigint;
  readonly writers: number;
  /** Of the publisher lease. */
  readonly lease: LeaseHead | null;
  readonly schemaLease: SchemaLeaseReport;
  /** The ClickHouse server's clock. */
  readonly serverNowNs: bigint;
}

/** `holdfast status`: what is visible, who may publish, and who may change the tables. */
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
  const { name } = schema;
  const { requestTimeoutMs, database } = catalog;
  const { signal, clock } = io;
  // Counting needs no store; the reader wants one all the same, and an empty one in memory can answer nothing wrongly.
  const store = memoryStore();
  const reader = await openReader({ client, database, schema, store, requestTimeoutMs }, io);
  const snapshot = await reader.snapshot({ signal });
  const { version } = snapshot;
  const records = await snapshot.count({ signal });
  const knobs = { "catalog.requestTimeoutMs": requestTimeoutMs };
  return within(
    requestTimeoutMs,
    async () => {
      const bounded = bind(client, { clock, requestTimeoutMs });
      const packs = await readPacks(bounded, catalog, name, version);
      const of = { database, catalog: name, lease: settings.lease, clock };
      const publisher = await readPublisherLease({ client, bounded }, of);
      const schemaLease = await readSchemaLease({ client, name, database, requestTimeoutMs, clock });
      return { catalog: name, version, records, ...packs, ...publisher, schemaLease };
    },
    { name: "holdfast status", knobs, signal, clock },
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
    ["lease", publisherLeaseText(s.lease, s.serverNowNs)],
    ["schema lease", schemaLeaseText(s.schemaLease)],
  ]);
}
