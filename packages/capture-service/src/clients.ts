import { ClickHouseLogLevel, createClient, type ClickHouseClient } from "@clickhouse/client";
import type { Settings } from "./settings.js";

/** The service's own connections to the catalog. */
export type Clients = {
  /** For lease statements alone, and one socket: nothing of ours queues before a renewal. */
  readonly lease: ClickHouseClient;
  readonly catalog: ClickHouseClient;
  close(): Promise<void>;
};

/** Makes the clients. Sends nothing. The database is not set here: its tables are named with it, and it may not exist yet. */
export function createClients(catalog: NonNullable<Settings["catalog"]>): Clients {
  const common = {
    url: catalog.url,
    ...(catalog.username === undefined ? {} : { username: catalog.username }),
    ...(catalog.password === undefined ? {} : { password: catalog.password }),
    application: "holdfast-capture-service",
    request_timeout: catalog.requestTimeoutMs,
    // What goes wrong is in the service's errors and status; a library does not write to the console.
    log: { level: ClickHouseLogLevel.OFF },
  };
  const lease = createClient({ ...common, max_open_connections: 1 });
  const others = createClient(common);
  return {
    lease,
    catalog: others,
    close: async () => {
      await lease.close();
      await others.close();
    },
  };
}
