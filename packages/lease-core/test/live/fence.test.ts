/**
 * Goal: what only a real server can show: the fence's own words, ids in ClickHouse's order, caps on the wire. Method: rows put into the table
 * by hand, and a second client as the oracle. Leases live so long that no machine outlasts them; a test that needs one to be over ends it.
 */
import { until } from "@holdfast-private/tests-machine";
import { startFaultProxy } from "@holdfast/testkit";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { acquireLease, ClickHouseLeaseTable, leaseConfig, LeaseCoordinator, type Fence } from "../../src/index.js";
import { MovedClock } from "../support/clocks.js";
import { failureOf, seeded } from "../support/keepers.js";
import { startEngine, type Engine } from "../support/engine.js";

const lease = { ttlMs: 600_000, publishTimeoutMs: 30_000, clockSkewMs: 200 };
const config = leaseConfig({ lease });
const marginNs = 30_200_000_000n;
let engine: Engine;
let table: ClickHouseLeaseTable;
let name = "";
let names = 0;

beforeAll(async () => {
  engine = await startEngine();
  table = new ClickHouseLeaseTable({ client: engine.client(), config });
  await table.create();
  await engine.run("CREATE TABLE fenced (v UInt32) ENGINE = MergeTree ORDER BY v");
});
afterAll(() => engine.stop());
beforeEach(() => {
  name = `fence-${(names += 1)}`;
});

// Ids whose order as text is the reverse of ClickHouse's, which compares the second half first.
const early = "ffffffff-ffff-4fff-8000-000000000001";
const late = "00000000-0000-4000-bfff-ffffffffffff";

async function row(term: number | bigint, leaseId: string, expiresNs: bigint): Promise<void> {
  await engine.run(
    "INSERT INTO holdfast_publisher_lease VALUES ({name:String}, {term:UInt64}, {id:UUID}, {holder:String}, 0, {expires:UInt64})",
    {
      name,
      term: term.toString(),
      id: leaseId,
      holder: leaseId === early ? "early" : "late",
      expires: expiresNs.toString(),
    },
  );
}

/** Evaluates the fence at a given time of the server's clock. */
async function admits(leaseId: string, atNs: bigint): Promise<boolean> {
  const fence = table.fence({ name, term: 0n, leaseId });
  const frozen = fence.predicate.replaceAll("now64(9)", `fromUnixTimestamp64Nano(toInt64(${atNs}))`);
  expect(frozen).not.toBe(fence.predicate);
  const [answer] = await engine.rows<{ ok: number }>(`SELECT ${frozen} AS ok`, { ...fence.params });
  return answer!.ok === 1;
}

async function insertFenced(fence: Fence, value: number): Promise<number> {
  await engine.client().command({
    query: `INSERT INTO fenced SELECT {v:UInt32} WHERE ${fence.predicate}`,
    query_params: { ...fence.params, v: value },
    clickhouse_settings: { ...fence.settings },
  });
  const [count] = await engine.rows<{ n: string }>("SELECT count() AS n FROM fenced WHERE v = {v:UInt32}", {
    v: value,
  });
  return Number(count!.n);
}

describe("fence", () => {
  it("LS-21 admits strictly later than now + publish timeout + skew: at the bound refused, a nanosecond later admitted", async () => {
    const expires = 1_800_000_000_123_456_789n;
    await row(4, early, expires);
    expect(await admits(early, expires - marginNs)).toBe(false);
    expect(await admits(early, expires - marginNs - 1n)).toBe(true);
    expect(await admits(late, expires - marginNs - 1n)).toBe(false);
  });

  // Red with the newest id of a contested head let in: a late renewal at a successor's term would then run beside it.
  it("LS-21 refuses after a successor, a tombstone, on a contested head whoever is the newest there, and on an empty table", async () => {
    const expires = 1_800_000_000_000_000_000n;
    const at = expires - 2n * marginNs;
    expect(await admits(early, at)).toBe(false);
    await row(7, early, expires);
    expect(await admits(early, at)).toBe(true);
    await row(7, late, expires);
    expect([await admits(early, at), await admits(late, at)]).toEqual([false, false]);
    await row(8, early, expires);
    expect([await admits(early, at), await admits(late, at)]).toEqual([true, false]);
    await row(8, early, at);
    expect(await admits(early, at)).toBe(false);
    await row(9, late, expires);
    expect([await admits(early, at), await admits(late, at)]).toEqual([false, true]);
  });

  it("LS-21 LK-18 a user's own INSERT … SELECT adds its row while the lease is held, and none after, without an error", async () => {
    const clock = new MovedClock();
    const keeper = await acquireLease({ client: engine.client(), name, lease, clock });
    const fence = await keeper.whileHeld(async (held) => held.fence());
    expect(await insertFenced(fence, 1)).toBe(1);
    clock.part();
    await until("the lease has been renewed", () => keeper.status().renewals === 1);
    expect(await insertFenced(fence, 2)).toBe(1);
    await keeper.stop();
    expect(await insertFenced(fence, 3)).toBe(0);
    const next = await acquireLease({ client: engine.client(), name, lease });
    expect(await insertFenced(fence, 4)).toBe(0);
    expect(await insertFenced(await next.exclusive(async (stretch) => stretch.fence()), 5)).toBe(1);
    await next.stop();
  });

  it("LS-04 a renewal past its lease's deadline is sent and refused for a successor, and a statement under that lease adds no row", async () => {
    const clock = new MovedClock();
    const [a, b] = ["a", "b"].map(
      (holder) => new LeaseCoordinator({ table, name, holder, config, clock, random: seeded((names += 1)) }),
    );
    const first = await a!.claim(null);
    if (first.result !== "held") throw new Error("not held");
    const fence = table.fence({ name, ...first.lease });
    expect(await insertFenced(fence, 8)).toBe(1);
    // Its row is over: a lease expires by its least row.
    await row(first.lease.term, first.lease.leaseId, 1n);
    clock.pass(lease.ttlMs);
    expect((await b!.claim(null)).result).toBe("held");
    expect(await insertFenced(fence, 9)).toBe(0);
    expect(await a!.claim(first.lease)).toMatchObject({
      result: "refused",
      error: { code: "LEASE_HELD", heldBy: "b" },
    });
  });
});

describe("order and caps", () => {
  it("LS-29 LS-17 the head is what a reference in plain SQL says, for ids whose text order differs and with repeated rows and tombstones", async () => {
    const now = 1_800_000_000_000_000_000n;
    for (const [term, id, expires] of [
      [1, late, now],
      [3, early, now + 5n],
      [3, late, now + 9n],
      [3, early, now + 2n],
      [2, late, now + 99n],
    ] as const) {
      await row(term, id, expires);
    }
    const head = await table.readHead(name);
    const reference = await engine.rows<{ term: string; id: string; expires: string }>(
      `SELECT t.term AS term, toString(t.lease_id) AS id, min(t.expires_at_ns) AS expires FROM holdfast_publisher_lease AS t
       WHERE t.name = {name:String} GROUP BY t.term, t.lease_id HAVING t.term = (SELECT max(term) FROM holdfast_publisher_lease WHERE name = {name:String})
       ORDER BY t.lease_id DESC`,
      { name },
    );
    expect(head.term).toBe(3n);
    expect(head.leases.map((one) => [one.leaseId, one.expiresAtNs.toString()])).toEqual(
      reference.map((one) => [one.id, one.expires]),
    );
    expect(head.leases.map((one) => one.leaseId)).toEqual([late, early]);
  });

  it("LS-06 an INSERT of 1.9 s under a cap of 1.999 s is not aborted by the engine before 1.999 s", async () => {
    const client = engine.client({
      settings: { max_execution_time: 1.999, lock_acquire_timeout: 1.999, timeout_overflow_mode: "throw" },
    });
    const start = performance.now();
    const code = await client.command({ query: "INSERT INTO fenced SELECT 77 + sleep(1.9)" }).then(
      () => null,
      (error: unknown) => (error as { code: string }).code,
    );
    const ms = performance.now() - start;
    // On a busy machine the cap may end it, but not a whole number of seconds in its place.
    if (code !== null) {
      expect(code).toBe("159");
      expect(ms).toBeGreaterThanOrEqual(1999);
      return;
    }
    expect(ms).toBeGreaterThanOrEqual(1900);
    expect(await engine.rows("SELECT v FROM fenced WHERE v = 77")).toEqual([{ v: 77 }]);
  });

  it("LS-05 claim and tombstone arrive with the time that they have as their caps", async () => {
    await using proxy = await startFaultProxy({ target: engine.target });
    const client = engine.client({ url: proxy.url });
    const start = performance.now();
    const keeper = await acquireLease({ client, name, ttlMs: 90_000, requestTimeoutMs: 600_000 });
    await keeper.stop();
    const passedMs = performance.now() - start;
    const inserts = proxy.requests.filter(({ request }) => request?.bodyStart.startsWith("INSERT") === true);
    const caps = inserts.map(({ request }) => {
      const settings = Object.fromEntries(new URL(request!.url, proxy.url).searchParams);
      expect(settings["lock_acquire_timeout"]).toBe(settings["max_execution_time"]);
      expect(settings).toMatchObject({ timeout_overflow_mode: "throw", async_insert: "0", insert_deduplicate: "0" });
      return Number(settings["max_execution_time"]) * 1000;
    });
    // A claim has 30 s, a tombstone till 89.9 s after the claim was sent. What is not left of that has passed meanwhile.
    for (const [n, most] of [30_000, 89_900].entries()) {
      expect(caps[n]).toBeLessThanOrEqual(most);
      expect(caps[n]! + passedMs).toBeGreaterThanOrEqual(most - 1);
    }
    expect(caps).toHaveLength(2);
  });

  it("a refusal names holder, term and what is left", async () => {
    const keeper = await acquireLease({ client: engine.client(), name, holder: "the one", lease });
    const error = await failureOf(acquireLease({ client: engine.client(), name, waitMs: 0 }));
    expect(error).toMatchObject({ code: "LEASE_HELD", heldBy: "the one", contested: false });
    expect(error["remainingMs"]).toBeGreaterThan(0);
    expect(error["remainingMs"]).toBeLessThanOrEqual(lease.ttlMs);
    expect(error.message).toMatch(
      /is held by the one \(lease id [0-9a-f-]{36}, term 1\) for another \d+ ms; gave up after a wait of 0 ms/,
    );
    await keeper.stop();
  });
});
