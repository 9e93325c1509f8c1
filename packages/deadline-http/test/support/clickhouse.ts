// Bound clients for tests: quiet, and closed when the test is over.
import {
  ClickHouseLogLevel,
  createClient,
  type ClickHouseClient,
  type ClickHouseClientConfigOptions,
} from "@clickhouse/client";
import { onTestFinished } from "vitest";
import { bind, type BindOptions } from "@holdfast/deadline-http/clickhouse";

export function plainClient(url: string, o: ClickHouseClientConfigOptions = {}): ClickHouseClient {
  // The vendor's own limits are far above what any machine needs, unless a test is about them.
  const limits = { request_timeout: 600_000, keep_alive: { enabled: true, idle_socket_ttl: 600_000 } };
  const client = createClient({ url, log: { level: ClickHouseLogLevel.OFF }, ...limits, ...o });
  onTestFinished(() => client.close());
  return client;
}

export function boundClient(
  url: string,
  o: BindOptions = {},
  config: ClickHouseClientConfigOptions = {},
): ClickHouseClient {
  return bind(plainClient(url, config), o);
}

export interface Failed {
  readonly code?: string;
  readonly outcome?: string;
  readonly timedOut?: boolean;
  readonly serverCode?: number;
  readonly httpStatus?: number;
  readonly bound?: { readonly name: string; readonly ms: number };
  readonly message: string;
}

/** The error of a call that must fail. */
export async function failure(call: () => Promise<unknown>): Promise<Failed> {
  try {
    await call();
  } catch (error) {
    return error as Failed;
  }
  throw new Error("it should have failed");
}

export const read = (client: ClickHouseClient, query = "SELECT a FROM t"): Promise<unknown[]> =>
  client.query({ query, format: "JSONEachRow" }).then((result) => result.json());

export const write = (client: ClickHouseClient): Promise<unknown> =>
  client.insert({ table: "t", values: [{ a: 1 }], format: "JSONEachRow" });
