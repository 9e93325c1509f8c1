import { startEmbeddedClickHouse, type EmbeddedClickHouse } from "@holdfast/clickhouse-embedded";
import { ClickHouseLogLevel, createClient, type ClickHouseClient, type ClickHouseSettings } from "@clickhouse/client";

/** The real engine, and clients on it that share nothing. */
export interface Engine {
  readonly server: EmbeddedClickHouse;
  client(settings?: ClickHouseSettings): ClickHouseClient;
  /** Rows of a statement, by a client that the code under test does not use. */
  rows<T>(query: string, params?: Record<string, unknown>): Promise<T[]>;
  run(query: string, params?: Record<string, unknown>): Promise<void>;
  stop(): Promise<void>;
}

export async function startEngine(): Promise<Engine> {
  const server = await startEmbeddedClickHouse();
  const clients: ClickHouseClient[] = [];
  const client = (settings: ClickHouseSettings = {}) => {
    const one = createClient({
      url: server.url,
      clickhouse_settings: settings,
      log: { level: ClickHouseLogLevel.OFF },
    });
    clients.push(one);
    return one;
  };
  const oracle = client({ output_format_json_quote_64bit_integers: 1 });
  return {
    server,
    client,
    rows: async <T>(query: string, query_params: Record<string, unknown> = {}) =>
      (await oracle.query({ query, query_params, format: "JSONEachRow" })).json<T>(),
    run: async (query, query_params = {}) => {
      await oracle.command({ query, query_params });
    },
    stop: async () => {
      await Promise.all(clients.map((one) => one.close()));
      await server.stop();
    },
  };
}

export const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

export async function until(condition: () => boolean | Promise<boolean>, limitMs = 15_000): Promise<void> {
  for (const end = performance.now() + limitMs; !(await condition());) {
    await sleep(5);
    if (performance.now() > end) throw new Error("the condition did not come true");
  }
}
