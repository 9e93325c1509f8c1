import { randomUUID } from "node:crypto";
import { startEmbeddedClickHouse, type EmbeddedClickHouse } from "@holdfast/clickhouse-embedded";

/** A server for live tests: the embedded engine, or the one that HOLDFAST_CLICKHOUSE_URL names. */
export interface TestClickHouse extends AsyncDisposable {
  /** Without credentials. */
  readonly url: string;
  readonly username: string;
  /** Empty when the server has none. */
  readonly password: string;
  /** The engine that this test run started; null for a server of the user's, which is shared and holds what others wrote. */
  readonly embedded: EmbeddedClickHouse | null;
  /** Creates a database with a random name; `stop()` drops it. */
  database(): Promise<string>;
  stop(): Promise<void>;
}

interface Address {
  readonly url: string;
  readonly username: string;
  readonly password: string;
}

/**
 * Opens the server of the live tier. `HOLDFAST_CLICKHOUSE_URL=http://user:password@host:8123` points it at any server; tests
 * make databases of their own there and drop them. A password asked for is one that only the embedded engine gets.
 */
export async function openTestClickHouse(o: { password?: string } = {}): Promise<TestClickHouse> {
  const given = process.env["HOLDFAST_CLICKHOUSE_URL"];
  if (given !== undefined && given !== "") {
    const url = new URL(given);
    const username = decodeURIComponent(url.username) || "default";
    return testClickHouse({ url: url.origin, username, password: decodeURIComponent(url.password) }, null);
  }
  const engine = await startEmbeddedClickHouse(o);
  return testClickHouse({ url: engine.url, username: "default", password: o.password ?? "" }, engine);
}

function testClickHouse(address: Address, embedded: EmbeddedClickHouse | null): TestClickHouse {
  const databases: string[] = [];
  const stop = async () => {
    // What the embedded engine has goes with it.
    if (embedded === null) for (const name of databases.splice(0)) await command(address, `DROP DATABASE ${name}`);
    await embedded?.stop();
  };
  return {
    ...address,
    embedded,
    async database() {
      const name = `holdfast_test_${randomUUID().replaceAll("-", "")}`;
      await command(address, `CREATE DATABASE ${name}`);
      databases.push(name);
      return name;
    },
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

async function command({ url, username, password }: Address, statement: string): Promise<void> {
  const headers = { "x-clickhouse-user": username, "x-clickhouse-key": password };
  const answer = await fetch(url, { method: "POST", headers, body: statement });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${statement}: ${answer.status} ${text}`);
}
