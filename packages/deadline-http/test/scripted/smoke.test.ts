import { createServer } from "node:http";
import { createClient } from "@clickhouse/client";
import { expect, it } from "vitest";
import { within } from "@holdfast/deadline-http";
import { bind, capSeconds } from "@holdfast/deadline-http/clickhouse";
import { bindFetch } from "@holdfast/deadline-http/fetch";
it("works", async () => {
  const urls: string[] = [];
  const server = createServer((q, r) => {
    urls.push(q.url!);
    q.resume();
    q.on("end", () => {
      if (urls.length > 2) return;
      r.setHeader("content-type", "x");
      r.end('{"a":"1"}\n{"a":"2"}\n');
    });
  });
  await new Promise<void>((r) => server.listen(0, "127.0.0.1", r));
  const port = (server.address() as { port: number }).port;
  const client = bind(createClient({ url: `http://127.0.0.1:${port}` }), {
    settings: (a) => ({ max_execution_time: Number(capSeconds(a.msLeft)) }),
  });
  const rows = await within(1000, async () =>
    (await client.query({ query: "SELECT 1", format: "JSONEachRow" })).json(),
  );
  expect(rows).toEqual([{ a: "1" }, { a: "2" }]);
  await within(1000, () => client.command({ query: "INSERT INTO t SELECT 1" }));

  await expect(
    within(300, () => client.insert({ table: "t", values: [{ a: 1n }], format: "JSONEachRow" })),
  ).rejects.toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "unknown" });
  const f = bindFetch();
  await expect(within(300, async () => (await f(`http://127.0.0.1:${port}/`)).text())).rejects.toMatchObject({
    code: "DEADLINE_EXCEEDED",
    outcome: "unknown",
  });
  await expect(within(300, async () => (await f(`http://127.0.0.1:45999/`)).text())).rejects.toMatchObject({
    code: "REQUEST_FAILED",
    outcome: "not-sent",
  });
  await client.close();
  server.closeAllConnections();
  server.close();
});
