import { ClickHouseLogLevel, createClient, type ClickHouseClient, type ClickHouseSettings } from "@clickhouse/client";

/** Where a server is, or a proxy before it, and who asks. JSON-safe: processes of a test are given it. */
export interface Connection {
  readonly url: string;
  readonly username: string;
  readonly password: string;
  readonly database: string;
}

/** A client of its own, with a limit that ends hangs only, and without the vendor's log on stderr. */
export function connect(connection: Connection, settings: ClickHouseSettings = {}): ClickHouseClient {
  return createClient({
    ...connection,
    request_timeout: 600_000,
    clickhouse_settings: settings,
    log: { level: ClickHouseLogLevel.OFF },
  });
}
