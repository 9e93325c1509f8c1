import { openTestClickHouse } from "@holdfast-private/tests-clickhouse";
import { Lateness } from "@holdfast-private/tests-machine";
import type { ClickHouseClient, ClickHouseSettings } from "@clickhouse/client";
import { connect, type Connection } from "./connection.js";
import { clockAheadMs } from "./server-clock.js";

/** A real server with a database of this test's own, and clients on it that share nothing. */
export interface Engine {
  readonly connection: Connection;
  /** For a proxy before it. */
  readonly target: { readonly host: string; readonly port: number };
  /** How far the server's clock is ahead of this machine's wall clock; 0 for the embedded engine, which reads the same one. */
  readonly clockAheadMs: number;
  /** Straight to the server, or through the proxy of this URL. */
  client(o?: { settings?: ClickHouseSettings; url?: string }): ClickHouseClient;
  /** Rows of a statement, by a client that the code under test does not use. */
  rows<T>(query: string, params?: Record<string, unknown>): Promise<T[]>;
  run(query: string, params?: Record<string, unknown>): Promise<void>;
  /** How much slower than a quiet machine this one is at the moment: for the TTL of a lease that a test waits for. */
  pace(): Promise<number>;
  stop(): Promise<void>;
}

export async function startEngine(): Promise<Engine> {
  const server = await openTestClickHouse();
  const { url, username, password } = server;
  const connection = { url, username, password, database: await server.database() };
  const { hostname, port } = new URL(url);
  const clients: ClickHouseClient[] = [];
  const client: Engine["client"] = ({ settings = {}, url: at = url } = {}) => {
    const one = connect({ ...connection, url: at }, settings);
    clients.push(one);
    return one;
  };
  const oracle = client({ settings: { output_format_json_quote_64bit_integers: 1 } });
  const rows = async <T>(query: string, query_params: Record<string, unknown> = {}) =>
    (await oracle.query({ query, query_params, format: "JSONEachRow" })).json<T>();
  const measure = async () => {
    await using probe = await Lateness.start(connection);
    return await probe.pace();
  };
  let measuring: Promise<number> | null = null;
  return {
    connection,
    target: { host: hostname, port: Number(port) },
    clockAheadMs: server.embedded === null ? await clockAheadMs(rows) : 0,
    client,
    rows,
    run: async (query, query_params = {}) => {
      await oracle.command({ query, query_params });
    },
    // Probes are load as well: those who ask together share one.
    pace: () => (measuring ??= measure().finally(() => (measuring = null))),
    stop: async () => {
      await Promise.all(clients.map((one) => one.close()));
      await server.stop();
    },
  };
}
