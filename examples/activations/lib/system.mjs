import { ClickHouseLogLevel, createClient } from "@clickhouse/client";
import { createCaptureService, tensor } from "@holdfast/capture-service";
import { startEmbeddedClickHouse } from "@holdfast/clickhouse-embedded";
import { openReader } from "@holdfast/reader";
import { accessSync, constants, existsSync, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { openStore } from "./store.mjs";

/** One level at a time: Node's recursive mkdir never ends below folders that refuse children with ENOENT, such as /proc. */
function makeDirectory(dir) {
  if (existsSync(dir)) return;
  makeDirectory(dirname(dir));
  mkdirSync(dir);
}

/** Opens the whole system: ClickHouse for the catalog and a spool under one directory, the packs there or in a bucket, the capture service. */
export async function openHoldfast({ dir, store: kind }) {
  try {
    makeDirectory(dir);
    accessSync(dir, constants.W_OK);
  } catch (cause) {
    throw new Error(`cannot write to ${dir}; choose another directory with --dir DIR`, { cause });
  }
  const store = await openStore({ store: kind, dir });
  const clickhouse = await startEmbeddedClickHouse({ dataDir: join(dir, "clickhouse") });
  const client = createClient({ url: clickhouse.url, log: { level: ClickHouseLogLevel.OFF } });
  const service = createCaptureService({
    schema: tensor,
    store,
    catalog: { url: clickhouse.url },
    spool: { directory: join(dir, "spool") },
    lease: { ttlMs: 5_000, publishTimeoutMs: 1_500 }, // short, so that a run after a killed one need not wait long
  });

  const openSnapshot = async () => {
    const reader = await openReader({ client, schema: tensor, store });
    return reader.snapshot();
  };
  return {
    service,
    snapshot: openSnapshot,
    /** The newest snapshot, or null where nothing was ever catalogued. */
    async snapshotIfAny() {
      try {
        return await openSnapshot();
      } catch (error) {
        if (error.code === "CATALOG_NOT_FOUND") return null;
        throw error;
      }
    },
    /** Bytes of the pack objects under these keys. */
    async packBytes(keys) {
      const infos = await Promise.all(keys.map((key) => store.head(key, { signal: AbortSignal.timeout(10_000) })));
      return infos.reduce((sum, info) => sum + (info?.size ?? 0), 0);
    },
    async close() {
      try {
        await service.stop();
      } finally {
        await client.close();
        await clickhouse.stop();
      }
    },
  };
}
