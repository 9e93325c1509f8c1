import { createClient, type ClickHouseClient, ClickHouseLogLevel } from "@clickhouse/client";
import { within } from "@holdfast/deadline-http";
import type { ObjectStore } from "@holdfast/object-store";
import type { CaptureSchema } from "@holdfast/pack-format";
import { openReader as openReaderOf, type Reader, type ReaderOptions } from "@holdfast/reader";
import { CliError } from "./errors.js";
import type { Io } from "./io.js";
import { openBucket } from "./open-bucket.js";
import { importPeers, type Peers } from "./peers.js";
import { loadSchema } from "./schema.js";
import type { CatalogSettings, Settings } from "./settings.js";

/** The catalog's address, or an error that says how to give it. */
export function requireCatalog(settings: Settings): CatalogSettings {
  if (settings.catalog !== null) return settings.catalog;
  throw new CliError(
    "USAGE_INVALID",
    "no catalog: give --catalog URL, HOLDFAST_CATALOG or catalog.url in --config FILE",
  );
}

/** A client of the vendor's library for the settings; the caller closes it. */
export function openClient(catalog: Omit<CatalogSettings, "requestTimeoutMs">): ClickHouseClient {
  return createClient({
    url: catalog.url,
    username: catalog.username,
    password: catalog.password,
    database: catalog.database,
    application: "holdfast-cli",
    log: { level: ClickHouseLogLevel.OFF }, // it would print each failed attempt over several lines before our one
  });
}

/**
 * The object store that holds the packs.
 * @throws CliError `USAGE_INVALID` where none is named, `PACKAGE_MISSING`, `CONFIG_INVALID`.
 */
export async function openStore(settings: Settings, io: Pick<Io, "env">, peers: Peers): Promise<ObjectStore> {
  const { store, requestTimeoutMs } = settings;
  if (store === null) throw new CliError("USAGE_INVALID", "no store: give --store fs:DIR or store in --config FILE");
  if (store.kind !== "fs") return openBucket(store, { env: io.env, peers, requestTimeoutMs });
  const loaded = await importPeers(peers, "--store fs", ["@holdfast/storage-fs"]);
  return loaded["@holdfast/storage-fs"].fsStore(store);
}

/** `openReader` of `@holdfast/reader`, on the command's clock and ended by its signal. */
export function openReader<S extends CaptureSchema>(
  options: Omit<ReaderOptions<S>, "clock">,
  { clock, signal }: Pick<Io, "clock" | "signal">,
): Promise<Reader<S>> {
  // Each request has a bound of its own.
  return within(Infinity, () => openReaderOf({ ...options, clock }), { name: "openReader", clock, signal });
}

/** What a question to the catalog needs, opened. */
export interface Opened {
  readonly schema: CaptureSchema;
  readonly store: ObjectStore;
  readonly reader: Reader<CaptureSchema>;
}

/** Opens catalog and store, runs `use`, and closes them again whatever it did. */
export async function withReader<T>(
  settings: Settings,
  io: Io,
  peers: Peers,
  use: (o: Opened) => Promise<T>,
): Promise<T> {
  const catalog = requireCatalog(settings);
  const schema = await loadSchema(settings.schema);
  const store = await openStore(settings, io, peers);
  const client = openClient(catalog);
  try {
    const { database, requestTimeoutMs } = catalog;
    const reader = await openReader({ client, database, schema, store, requestTimeoutMs }, io);
    try {
      return await use({ schema, store, reader });
    } finally {
      await reader[Symbol.asyncDispose]();
    }
  } finally {
    await client.close();
  }
}
