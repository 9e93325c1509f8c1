// One renewal after another of one lease: its requests, counted by a proxy, and its time, measured without one.
import { createClient, type ClickHouseClient } from "@clickhouse/client";
import { systemClock } from "@holdfast/deadline-http";
import { ClickHouseLeaseTable, leaseConfig, LeaseCoordinator, type HeldLease } from "@holdfast/lease-core";
import { startFaultProxy } from "@holdfast/testkit";

const config = leaseConfig();
// Repeatable; only lease ids are drawn from it.
let drawn = 0;
const random = (): number => (drawn = (drawn + 0.618_033_988_749) % 1);

async function claimed(coordinator: LeaseCoordinator, held: HeldLease | null): Promise<HeldLease> {
  const claim = await coordinator.claim(held);
  if (claim.result === "held") return claim.lease;
  throw new Error(`a claim of the benchmark was ${claim.result}`, { cause: claim.error });
}

/** Requests of each renewal, which must all have the same number. */
async function requestsOf(port: number): Promise<number> {
  const proxy = await startFaultProxy({ target: { port } });
  const client = createClient({ url: proxy.url });
  const table = new ClickHouseLeaseTable({ client, config });
  try {
    const o = { name: "counted", holder: "bench", config, clock: systemClock, random };
    const coordinator = new LeaseCoordinator({ ...o, table });
    let held = await claimed(coordinator, null);
    const counts = new Set<number>();
    for (let n = 0; n < 5; n++) {
      const before = proxy.requests.length;
      held = await claimed(coordinator, held);
      counts.add(proxy.requests.length - before);
    }
    const [requests] = counts;
    if (counts.size !== 1 || requests === undefined) throw new Error(`renewals of ${[...counts].join(", ")} requests`);
    return requests;
  } finally {
    await table.close();
    await client.close();
    await proxy[Symbol.asyncDispose]();
  }
}

/** `count` renewals, each followed by a SELECT 1 through the plain client: what any request takes there. */
export async function renewals(client: ClickHouseClient, port: number, count: number) {
  const table = new ClickHouseLeaseTable({ client, config });
  try {
    await table.create();
    const requests = await requestsOf(port);
    const o = { name: "renewed", holder: "bench", config, clock: systemClock, random };
    const coordinator = new LeaseCoordinator({ ...o, table });
    let held = await claimed(coordinator, null);
    const [tookMs, selectMs]: [number[], number[]] = [[], []];
    // The first ones open connections and warm the code.
    for (let n = -20; n < count; n++) {
      const from = performance.now();
      held = await claimed(coordinator, held);
      const renewed = performance.now();
      await (await client.query({ query: "SELECT 1", format: "JSONEachRow" })).json();
      const selected = performance.now();
      if (n < 0) continue;
      tookMs.push(renewed - from);
      selectMs.push(selected - renewed);
    }
    await coordinator.release(held);
    return { requests, tookMs, selectMs };
  } finally {
    await table.close();
  }
}
