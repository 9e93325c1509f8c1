import { randomBytes } from "node:crypto";
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
  /** Creates a database of a random name, which says in which run of the tests it was made (`HOLDFAST_RUN`); `stop()` drops it. */
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
    const names = databases.splice(0);
    // What the embedded engine has goes with it.
    if (embedded !== null) await embedded.stop();
    else await dropAll(address, names);
  };
  return {
    ...address,
    embedded,
    async database() {
      const name = databaseName();
      // Noted first: a statement whose answer is lost may have made it.
      databases.push(name);
      await command(address, `CREATE DATABASE ${name}`);
      return name;
    },
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

/**
 * On a server that others use as well, a person sees by it which run made the database. Short: a catalog takes 64 characters, and tests append
 * to it.
 */
function databaseName(): string {
  const run = (process.env["HOLDFAST_RUN"] ?? "").split("/")[0]!;
  return ["holdfast_test", run, randomBytes(6).toString("hex")].filter((part) => part !== "").join("_");
}

/** Drops as many as it can; the others are named by the error. */
async function dropAll(address: Address, names: readonly string[]): Promise<void> {
  const failures: Error[] = [];
  for (const name of names) {
    await command(address, `DROP DATABASE IF EXISTS ${name}`).catch((error: unknown) => failures.push(error as Error));
  }
  if (failures.length === 0) return;
  const texts = failures.map(({ message }) => message).join("; ");
  throw new AggregateError(failures, `${failures.length} of ${names.length} databases were not dropped: ${texts}`);
}

async function command({ url, username, password }: Address, statement: string): Promise<void> {
  const headers = { "x-clickhouse-user": username, "x-clickhouse-key": password };
  try {
    const answer = await fetch(url, { method: "POST", headers, body: statement });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${answer.status} ${text}`);
  } catch (error) {
    throw new Error(`${statement}: ${(error as Error).message}`, { cause: error });
  }
}
