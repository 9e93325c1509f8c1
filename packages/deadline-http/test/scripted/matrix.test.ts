// Goal: every adapter keeps its bounds, outcomes and retry rules in every fault. Method: one table of faults × clients; each
// cell is a bound client, the fault proxy and the fault server on loopback, and one call. The oracle for `outcome` is the
// proxy's byte log; the server's log says how often a request was sent.
import { afterAll, beforeAll, describe, it } from "vitest";
import { within } from "@holdfast/deadline-http";
import { startFaultServer } from "@holdfast/testkit";
import { runCell } from "../matrix/cell.js";
import { clients, shareGlobalAgent, type MatrixClient } from "../matrix/clients.js";
import { faults } from "../matrix/table.js";

let restore: () => void = () => undefined;

/** The SDKs load much when they are first used, which would count as a loop that is held up. */
async function rehearse(client: MatrixClient): Promise<void> {
  const server = await startFaultServer({ otherwise: client.good });
  const opened = client.open({ url: server.url });
  await within(30_000, () => opened.call());
  await opened.close();
  await server[Symbol.asyncDispose]();
}

beforeAll(async () => {
  // Loads Node's fetch, and with it the dispatcher that the clients are made from.
  await fetch("http://127.0.0.1:2").catch(() => undefined);
  restore = shareGlobalAgent();
  for (const client of clients) await rehearse(client);
});
afterAll(() => restore());

for (const client of clients) {
  // Cells mostly wait.
  describe.concurrent(client.name, () => {
    for (const { ids, name, plan } of faults) {
      const cell = plan(client);
      if (typeof cell === "string") it.skip(`${client.name} × ${name}: ${cell}`, () => undefined);
      else it(`DL-27 ${ids} ${client.name} × ${name}`, () => runCell(client, cell));
    }
  });
}
