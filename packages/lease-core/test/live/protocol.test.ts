/**
 * Goal: the simulated table and a real server are the same table to the protocol. Method: one suite of scenarios, run on both with the
 * machine's clock; what only a real server can show is in fence.test.ts. A lease lives for ten minutes, so that no machine outlasts one; a row
 * that has to expire is written with a TTL of its own, and what has to fall due is made due.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { systemClock } from "@holdfast/deadline-http";
import { until } from "@holdfast-private/tests-machine";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  acquireLease,
  ClickHouseLeaseTable,
  createLeaseKeeper,
  leaseConfig,
  LeaseCoordinator,
  type ClaimResult,
  type HeldLease,
  type LeaseTable,
} from "../../src/index.js";
import { SimulatedLeaseTable } from "../../src/testing/index.js";
import { MovedClock } from "../support/clocks.js";
import { startEngine, type Engine } from "../support/engine.js";
import { seeded } from "../support/keepers.js";

const ttlMs = 600_000;
const lease = { ttlMs, publishTimeoutMs: 300 };
const config = leaseConfig({ lease });
let engine: Engine;
let names = 0;

beforeAll(async () => {
  engine = await startEngine();
  await new ClickHouseLeaseTable({ client: engine.client(), config }).create();
});
afterAll(() => engine.stop());

function held(result: ClaimResult): HeldLease {
  if (result.result !== "held")
    throw new Error(`expected held, got ${result.result}: ${String((result as { error: unknown }).error)}`);
  return result.lease;
}

const tables: Record<string, () => LeaseTable> = {
  "simulated table": () => new SimulatedLeaseTable({ clock: systemClock, fenceMarginMs: 300 }),
  "real server": () => new ClickHouseLeaseTable({ client: engine.client(), config }),
};

describe.each(Object.keys(tables))("%s", (which) => {
  const place = () => {
    const table = tables[which]!();
    const name = `job-${(names += 1)}`;
    const coordinator = (holder: string, over: LeaseTable = table) =>
      new LeaseCoordinator({ table: over, name, holder, config, clock: systemClock, random: seeded((names += 1)) });
    const keeper = (holder: string, over: object = {}) =>
      createLeaseKeeper({ name, holder, leaseTable: table, lease, random: seeded((names += 1)), ...over });
    return { table, name, coordinator, keeper };
  };

  it("LS-17 claim, refuse, renew at head + 1, release, successor at once", async () => {
    const { table, name, coordinator } = place();
    const [a, b] = [coordinator("a"), coordinator("b")];
    expect(await table.readHead(name)).toMatchObject({ term: 0n, leases: [] });
    const first = held(await a.claim(null));
    const refused = await b.claim(null);
    expect(refused).toMatchObject({ result: "refused", ownClaims: false, error: { code: "LEASE_HELD", heldBy: "a" } });
    const second = held(await a.claim(first));
    expect([first.term, second.term]).toEqual([1n, 2n]);
    const head = await table.readHead(name);
    expect(head.leases.map((one) => [one.leaseId, one.holder])).toEqual([[first.leaseId, "a"]]);
    expect(head.leases[0]!.expiresAtNs - head.nowNs).toBeLessThanOrEqual(BigInt(ttlMs) * 1_000_000n);
    await a.release(second);
    expect(held(await b.claim(null)).term).toBe(3n);
  });

  it("a row that has expired can be claimed, and not before", async () => {
    const { table, name, coordinator } = place();
    const b = coordinator("b");
    const start = performance.now();
    const leaseId = "00000000-0000-4000-8000-000000000001";
    await table.insertClaim({ name, term: 1n, leaseId, holder: "a", ttlMs: 1000 });
    let taken: ClaimResult = await b.claim(null);
    while (taken.result === "refused") {
      await sleep(20);
      taken = await b.claim(null);
    }
    expect(held(taken).term).toBe(2n);
    expect(performance.now() - start).toBeGreaterThanOrEqual(1000);
  });

  it("LS-19 two claims at one term both give up, and a third finds the term contested", async () => {
    const { table, coordinator } = place();
    // Both INSERTs go out only when both have read the head as free, and both terms are read back only when both have landed.
    const barrier = () => {
      let waiting = 0;
      let go: () => void = () => undefined;
      const both = new Promise<void>((resolve) => (go = resolve));
      return () => {
        if ((waiting += 1) === 2) go();
        return both;
      };
    };
    const [freeRead, landed] = [barrier(), barrier()];
    const together: LeaseTable = {
      create: () => table.create(),
      readHead: (of) => table.readHead(of),
      readTerm: (of, term) => table.readTerm(of, term),
      insertTombstone: (row) => table.insertTombstone(row),
      fence: (row) => table.fence(row),
      insertClaim: async (claim) => {
        await freeRead();
        await table.insertClaim(claim);
        await landed();
      },
    };
    const results = await Promise.all([coordinator("a", together).claim(null), coordinator("b", together).claim(null)]);
    for (const result of results) expect(result).toMatchObject({ result: "refused", contested: true });
    const third = await coordinator("c").claim(null);
    expect(third).toMatchObject({ result: "refused", contested: true, error: { code: "LEASE_HELD", contested: true } });
  });

  it("LS-29 leases of different names do not see each other: 20 names contended, one holder each", async () => {
    const table = tables[which]!();
    const owners = await Promise.all(
      Array.from({ length: 20 }, async (_, at) => {
        const name = `many-${which}-${at}`;
        const claimers = ["a", "b"].map((holder, n) => {
          const random = seeded(1000 + 2 * at + n);
          return new LeaseCoordinator({ table, name, holder, config, clock: systemClock, random });
        });
        const first = await claimers[0]!.claim(null);
        const second = await claimers[1]!.claim(null);
        return [first.result, second.result];
      }),
    );
    expect(owners).toEqual(owners.map(() => ["held", "refused"]));
  });

  it("two acquirers: the second is refused at the end of its wait naming the holder, and takes over within two ticks of a release, long before the row is over", async () => {
    const { keeper, table, name } = place();
    const [one, two] = [keeper("one"), keeper("two")];
    await one.acquire();
    const { leases } = await table.readHead(name);
    const start = performance.now();
    await expect(two.acquire({ waitMs: 400 })).rejects.toMatchObject({ code: "LEASE_HELD", heldBy: "one" });
    expect(performance.now() - start).toBeGreaterThanOrEqual(400);
    const waiting = two.acquire({ waitMs: ttlMs });
    const { nowNs: releasedNs } = await table.readHead(name);
    await one.stop();
    // Its row is over at once, unless the other has taken over already.
    const { leases: after, nowNs } = await table.readHead(name);
    expect(after[0]!.holder === "two" || after[0]!.expiresAtNs <= nowNs).toBe(true);
    await waiting;
    const { nowNs: takenNs } = await table.readHead(name);
    expect(takenNs).toBeLessThan(leases[0]!.expiresAtNs);
    expect(Number(takenNs - releasedNs)).toBeLessThanOrEqual((2 * config.tickMs + config.claimBoundMs) * 1e6);
    expect([one.status().state, two.status().state]).toEqual(["released", "held"]);
    await two.stop();
  });

  it("LK-18 a job that sends nothing is held through the renewals that come meanwhile", async () => {
    const { keeper } = place();
    const clock = new MovedClock();
    const one = keeper("one", { clock });
    await one.acquire();
    const answers = new Set<string>();
    await one.whileHeld(async (job) => {
      for (let renewals = 1; renewals <= 3; renewals++) {
        clock.pass(ttlMs / 3);
        await until("the lease has been renewed", () => {
          answers.add(job.check());
          return one.status().renewals === renewals;
        });
      }
    });
    expect([...answers]).toEqual(["held"]);
    await one.stop();
  });
});

it("acquireLease needs a client and a name, and makes its table", async () => {
  await using keeper = await acquireLease({
    client: engine.client(),
    name: "first",
    table: "leases_of_my_own",
    ttlMs,
    lease: { publishTimeoutMs: 1000 },
  });
  expect(keeper.status()).toMatchObject({ state: "held", term: "1" });
  const [row] = await engine.rows<{ name: string; holder: string }>("SELECT name, holder FROM leases_of_my_own");
  expect(row).toEqual({ name: "first", holder: keeper.status().holder });
});

it("LS-18 a client whose wall clock is a day off decides nothing: the server stamps and compares", async () => {
  for (const off of [-86_400_000, 86_400_000]) {
    const clock = new MovedClock(off);
    const table = new ClickHouseLeaseTable({ client: engine.client(), config, clock });
    const name = `off-${off}`;
    const [a, b] = ["a", "b"].map(
      (holder) => new LeaseCoordinator({ table, name, holder, config, clock, random: seeded((names += 1)) }),
    );
    const lease = held(await a!.claim(null));
    expect((await b!.claim(null)).result).toBe("refused");
    held(await a!.claim(lease));
    const [row] = await engine.rows<{ apart: string }>(
      "SELECT abs(toInt64(max(acquired_at_ns)) - toUnixTimestamp64Nano(now64(9))) AS apart FROM holdfast_publisher_lease WHERE name = {name:String}",
      { name },
    );
    expect(Number(row!.apart)).toBeLessThan(3600e9);
  }
});

it("an unreachable server is a coded error that says what was tried", async () => {
  const { createClient, ClickHouseLogLevel } = await import("@clickhouse/client");
  const client = createClient({ url: "http://127.0.0.1:1", log: { level: ClickHouseLogLevel.OFF } });
  const keeper = createLeaseKeeper({ client, name: "nowhere", lease });
  await expect(keeper.acquire()).rejects.toMatchObject({ code: "REQUEST_FAILED", outcome: "not-sent" });
  await keeper.stop();
  await client.close();
});

it("a keeper that is stopped while it waits leaves nothing behind", async () => {
  const clock = new MovedClock();
  const holder = await acquireLease({ client: engine.client(), name: "waited-for", lease, clock });
  const waiting = createLeaseKeeper({ client: engine.client(), name: "waited-for", lease });
  const abort = new AbortController();
  const failed = expect(waiting.acquire({ signal: abort.signal, waitMs: ttlMs })).rejects.toMatchObject({
    code: "CANCELED",
  });
  await until("it has been refused, and waits", () => waiting.status().heldBy !== undefined);
  abort.abort();
  await failed;
  await waiting.stop();
  expect(waiting.status().state).toBe("none");
  clock.part();
  await until("the holder has renewed", () => holder.status().renewals > 0);
  await holder.stop();
});
