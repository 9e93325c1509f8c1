// Goal: every adapter keeps its bounds, outcomes and retry rules in every fault. Method: one table of faults × clients; each
// cell is a bound client, the fault proxy and the fault server on loopback, and one call. The oracle for `outcome` is the
// proxy's byte log; the server's log says how often a request was sent.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { runCell } from "../matrix/cell.js";
import { clients, shareGlobalAgent } from "../matrix/clients.js";
import { faults } from "../matrix/table.js";

let restore: () => void = () => undefined;

beforeAll(async () => {
  // Loads Node's fetch, and with it the dispatcher that the clients are made from.
  await fetch("http://127.0.0.1:2").catch(() => undefined);
  restore = shareGlobalAgent();
});
afterAll(() => restore());

/** How many faults mean nothing to a client; each says why. A cell that drops out of the table by mistake changes a number. */
const notApplying: Readonly<Record<string, number>> = {
  "ClickHouse SELECT": 4,
  "ClickHouse INSERT": 2,
  "S3 GetObject": 17,
  "S3 PutObject": 13,
  "GCS download": 17,
  "GCS save": 13,
  "fetch GET": 23,
  "fetch POST": 19,
};

for (const client of clients) {
  const cells = faults.map(({ ids, name, plan }) => ({ ids, name, cell: plan(client) }));

  it(`DL-27 ${client.name}: what does not apply to it says why, and is no more than that`, () => {
    const reasons = cells.flatMap(({ cell }) => (typeof cell === "string" ? [cell] : []));
    expect(reasons).toHaveLength(notApplying[client.name]!);
    for (const reason of reasons) expect(reason).toMatch(/\w+ \w+/);
  });

  // Cells mostly wait.
  describe.concurrent(client.name, () => {
    for (const { ids, name, cell } of cells) {
      if (typeof cell !== "string") it(`DL-27 ${ids} ${client.name} × ${name}`, () => runCell(client, cell));
    }
  });
}
