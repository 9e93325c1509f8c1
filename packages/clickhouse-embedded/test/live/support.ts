import { afterAll, beforeAll } from "vitest";
import {
  ClickHouseError,
  ClickHouseLogLevel,
  createClient,
  type ClickHouseClient,
  type ClickHouseClientConfigOptions,
} from "@clickhouse/client";
import { startEmbeddedClickHouse, type EmbeddedClickHouse, type EmbeddedOptions } from "@holdfast/clickhouse-embedded";

/** A client that does not print the errors that tests ask for, and that waits for an answer as long as a busy machine takes. */
export const clientOf = (url: string, config: ClickHouseClientConfigOptions = {}): ClickHouseClient =>
  createClient({ url, log: { level: ClickHouseLogLevel.OFF }, request_timeout: 600_000, ...config });

/** One server for a test file, and clients that are closed with it. */
export function useServer(options: EmbeddedOptions = {}) {
  let server: EmbeddedClickHouse | null = null;
  const clients: ClickHouseClient[] = [];
  let shared: ClickHouseClient | null = null;
  beforeAll(async () => {
    server = await startEmbeddedClickHouse(options);
  });
  afterAll(async () => {
    await Promise.all(clients.map((client) => client.close()));
    await server?.stop();
  });
  const up = (): EmbeddedClickHouse => {
    if (server === null) throw new Error("the server is started in beforeAll");
    return server;
  };
  const client = (config: ClickHouseClientConfigOptions = {}): ClickHouseClient => {
    const made = clientOf(up().url, config);
    clients.push(made);
    return made;
  };
  return {
    server: up,
    client,
    /** A client with no options, made once. */
    plain: (): ClickHouseClient => (shared ??= client()),
    /** A raw request: what curl would send. */
    http: (path: string, init?: RequestInit): Promise<Response> => fetch(`${up().url}${path}`, init),
    rows: async (query: string): Promise<unknown[]> => {
      const rs = await (shared ??= client()).query({ query, format: "JSONCompactEachRow" });
      return rs.json();
    },
  };
}

/** The ClickHouse error that a call ends with. */
export async function clickhouseError(call: Promise<unknown>): Promise<ClickHouseError> {
  try {
    await call;
  } catch (error) {
    if (error instanceof ClickHouseError) return error;
    throw error;
  }
  throw new Error("the call was expected to fail with a ClickHouseError");
}
