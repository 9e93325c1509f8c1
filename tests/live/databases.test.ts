// Goal: on a server of the user's the tests leave no database that can be dropped, and a person can tell which run made one. Method: a server that
// notes statements and refuses, or resets, some.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { openTestClickHouse } from "@holdfast-private/tests-clickhouse";
import { expect, it, onTestFinished, vi } from "vitest";

/** Statements that a server received which `HOLDFAST_CLICKHOUSE_URL` names; those of `reset` get no answer, those of `refuse` an error. */
async function usersServer(
  o: { reset?: (s: string) => boolean; refuse?: (s: string) => boolean } = {},
): Promise<string[]> {
  const statements: string[] = [];
  const server = createServer((request, response) => {
    void text(request).then((statement) => {
      statements.push(statement);
      if (o.reset?.(statement)) response.destroy();
      else response.writeHead(o.refuse?.(statement) ? 403 : 200).end("as told");
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
    vi.unstubAllEnvs();
  });
  vi.stubEnv("HOLDFAST_CLICKHOUSE_URL", `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  return statements;
}

it("where one database cannot be dropped the others are, and the error names it", async () => {
  const names: string[] = [];
  const statements = await usersServer({ refuse: (s) => s === `DROP DATABASE IF EXISTS ${names[0]}` });
  const server = await openTestClickHouse();
  for (let i = 0; i < 3; i += 1) names.push(await server.database());
  await expect(server.stop()).rejects.toThrow(
    `1 of 3 databases were not dropped: DROP DATABASE IF EXISTS ${names[0]}: 403`,
  );
  expect(statements.slice(3)).toEqual(names.map((name) => `DROP DATABASE IF EXISTS ${name}`));
});

it("a database whose creation was not answered is dropped", async () => {
  const statements = await usersServer({ reset: (s) => s.startsWith("CREATE") });
  const server = await openTestClickHouse();
  await expect(server.database()).rejects.toThrow("CREATE DATABASE");
  await server.stop();
  expect(statements.at(-1)).toBe(statements[0]!.replace("CREATE DATABASE", "DROP DATABASE IF EXISTS"));
});

it.each([
  ["0a1b2c", /^holdfast_test_0a1b2c_[0-9a-f]{12}$/],
  ["0a1b2c/3d4e5f", /^holdfast_test_0a1b2c_[0-9a-f]{12}$/],
  ["", /^holdfast_test_[0-9a-f]{12}$/],
])("a database's name has the id of the run, of the outermost one: %j", async (run, name) => {
  await usersServer();
  vi.stubEnv("HOLDFAST_RUN", run);
  await using server = await openTestClickHouse();
  expect(await server.database()).toMatch(name);
});
