import { startEmbeddedClickHouse } from "@holdfast/clickhouse-embedded";

/** A server for live tests: the embedded engine, or the one that HOLDFAST_CLICKHOUSE_URL names. */
export interface TestClickHouse extends AsyncDisposable {
  /** Without credentials. */
  readonly url: string;
  readonly username: string;
  /** Empty when the server has none. */
  readonly password: string;
  /** False for a server that this test run did not start: it is shared, and holds what others wrote. */
  readonly embedded: boolean;
  stop(): Promise<void>;
}

/**
 * Opens the server of the live tier. `HOLDFAST_CLICKHOUSE_URL=http://user:password@host:8123` points it at any server; tests
 * make a database of their own there and drop it. A password asked for is one that only the embedded engine gets.
 */
export async function openTestClickHouse(o: { password?: string } = {}): Promise<TestClickHouse> {
  const given = process.env["HOLDFAST_CLICKHOUSE_URL"];
  if (given !== undefined && given !== "") {
    const url = new URL(given);
    const stop = () => Promise.resolve();
    return {
      url: url.origin,
      username: decodeURIComponent(url.username) || "default",
      password: decodeURIComponent(url.password),
      embedded: false,
      stop,
      [Symbol.asyncDispose]: stop,
    };
  }
  const engine = await startEmbeddedClickHouse(o);
  const stop = () => engine.stop();
  return {
    url: engine.url,
    username: "default",
    password: o.password ?? "",
    embedded: true,
    stop,
    [Symbol.asyncDispose]: stop,
  };
}
