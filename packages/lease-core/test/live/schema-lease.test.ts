/**
 * Goal: one holder of the schema lease, whatever merges and whoever releases late. Method: a real server, and races between processes; claims
 * are held at a proxy until all of them are there, and settle until the test says so; the table is read by a client of the test's own.
 */
import { until } from "@holdfast-private/tests-machine";
import { startFaultProxy, type FaultProxy, type LoggedRequest } from "@holdfast/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { SchemaLeaseOptions } from "../../src/index.js";
import { Applier } from "../support/applier.js";
import { Child } from "../support/child.js";
import { startEngine, type Engine } from "../support/engine.js";

let engine: Engine;
let names = 0;
const table = "holdfast_schema_lease";

beforeAll(async () => {
  engine = await startEngine();
  await Promise.all([1, 2, 3].map(() => applier("none").lease.createTable()));
});
afterAll(() => engine.stop());

const name = () => `schema-${(names += 1)}`;
const applier = (of: string, o: Partial<SchemaLeaseOptions> = {}, wallMs?: number) =>
  new Applier({ client: engine.client(), name: of, leaseMs: 60_000, settleMs: 1000, ...o }, wallMs);

const logical = (of: string, final: boolean) =>
  engine.rows<{ holder: string; acquired_at_ms: string; released: number }>(
    `SELECT holder, acquired_at_ms, released FROM ${table} ${final ? "FINAL" : ""} WHERE lock_name = {of:String} ORDER BY acquired_at_ms`,
    { of },
  );

/** A proxy that keeps claims back: `together` lets so many go at once, when they are all there. */
interface ClaimsHeld extends AsyncDisposable {
  readonly proxy: FaultProxy;
  together(count: number): Promise<readonly LoggedRequest[]>;
}

async function claimsHeld(): Promise<ClaimsHeld> {
  const proxy = await startFaultProxy({ target: engine.target });
  proxy.use({
    match: ({ bodyStart, url }) => bodyStart.startsWith(`INSERT INTO \`${table}\``) && url.includes("param_released=0"),
    fault: { kind: "hold" },
  });
  let released = 0;
  return {
    proxy,
    async together(count) {
      const waiting = () => proxy.requests.filter(({ faults }) => faults.includes("hold")).slice(released);
      await until("the claims are there", () => waiting().filter(({ complete }) => complete).length >= count);
      const claims = waiting();
      expect(claims).toHaveLength(count);
      released += count;
      proxy.release();
      return claims;
    },
    [Symbol.asyncDispose]: () => proxy[Symbol.asyncDispose](),
  };
}

describe("one holder", () => {
  const race = async (rounds: number) => {
    await using claims = await claimsHeld();
    const connection = { ...engine.connection, url: claims.proxy.url };
    const children = Array.from({ length: 4 }, () => new Child("schema-racer.ts", connection));
    const all = async (order: object, meanwhile?: () => Promise<unknown>): Promise<object[]> => {
      for (const child of children) {
        child.messages.length = 0;
        child.tell(order);
      }
      await meanwhile?.();
      await until("all four have answered", () => children.every(({ messages }) => messages.length === 1));
      return children.map(({ messages }) => messages[0]!);
    };
    try {
      await Promise.all(children.map((child) => child.said("ready")));
      for (let round = 0; round < rounds; round++) {
        const of = name();
        // Each of them has read before any claim landed, and reads again after all have.
        expect(await all({ go: of }, () => claims.together(4))).toEqual(Array(4).fill({ settling: true }));
        const ends = (await all({ settled: true })) as { held?: boolean; holder?: string }[];
        // A racer that ends as neither held nor refused fails the test.
        for (const end of ends)
          expect(end).toEqual({ held: expect.any(Boolean) as boolean, holder: expect.any(String) as string });
        const holders = ends.filter((end) => end.held === true).map((end) => end.holder);
        expect(holders).toEqual([(await logical(of, true))[0]!.holder]);
        expect(await all({ release: true })).toEqual(Array(4).fill({ released: true }));
        expect(await logical(of, true)).toMatchObject([{ holder: holders[0], released: 1 }]);
      }
    } finally {
      await Promise.all(children.map((child) => child[Symbol.asyncDispose]()));
    }
  };
  it("SL-02 four processes that find the lease free together leave exactly one holder", () => race(5));
  it("SL-02 so too in 20 rounds", { tags: ["slow"] }, () => race(20));

  it("SL-03 of two claims in one millisecond the last inserted stands, for every reader, before and after a merge", async () => {
    const of = name();
    await engine.run(`SYSTEM STOP MERGES ${table}`);
    await using claims = await claimsHeld();
    // Not long ago: the table clears away rows that expired a week before.
    const wallMs = Date.now();
    // The larger name is inserted first, so that ordering by holder would name the other one.
    const larger = applier(of, { holder: "host/zzzzzzzz" }, wallMs);
    const smaller = applier(of, { holder: "host/aaaaaaaa", client: engine.client({ url: claims.proxy.url }) }, wallMs);
    smaller.begin();
    await until("the smaller one has found it free", () => claims.proxy.requests.length === 2);
    expect(await larger.begin().settles()).toBe(true);
    await claims.together(1);
    expect(await smaller.settles()).toBe(true);
    expect([await larger.end(), await smaller.end()]).toEqual([false, true]);
    expect((await logical(of, false)).map((row) => row.holder).sort()).toEqual(["host/aaaaaaaa", "host/zzzzzzzz"]);
    expect((await logical(of, true)).map((row) => row.holder)).toEqual(["host/aaaaaaaa"]);
    await engine.run(`SYSTEM START MERGES ${table}`);
    await engine.run(`OPTIMIZE TABLE ${table} FINAL`);
    expect((await logical(of, false)).map((row) => row.holder)).toEqual(["host/aaaaaaaa"]);
    expect(await smaller.lease.status()).toMatchObject({ heldBy: "host/aaaaaaaa" });
    expect(await larger.lease.status()).toMatchObject({ heldBy: "host/aaaaaaaa" });
  });

  it("SL-12 with a claimer stalled between its free read and its INSERT, that one never holds nor releases, and two never hold", async () => {
    const of = name();
    await using claims = await claimsHeld();
    const [one, two] = [applier(of), applier(of)];
    const stalled = applier(of, { client: engine.client({ url: claims.proxy.url }) }).begin();
    await until("the stalled one has found it free", () => claims.proxy.requests.length === 2);
    one.begin();
    two.begin();
    await Promise.all([one.settles(), two.settles()]);
    expect([await one.end(), await two.end()].sort()).toEqual([false, true]);
    // Half the settle, and a millisecond.
    await stalled.clock.advance(501);
    await claims.together(1);
    expect(await stalled.end()).toBe(false);
    expect(await stalled.lease.status()).toMatchObject({ stalledClaims: 1 });
    await stalled.lease.release();
    expect((await logical(of, false)).filter((row) => row.released === 1)).toEqual([]);
    expect(await applier(of).acquire()).toBe(false);
  });

  it("SL-11 a profile with asynchronous inserts that are not waited for changes nothing", async () => {
    await using claims = await claimsHeld();
    const settings = { async_insert: 1, wait_for_async_insert: 0 } as const;
    for (let round = 0; round < 3; round++) {
      const of = name();
      const racers = Array.from({ length: 4 }, () =>
        applier(of, { client: engine.client({ url: claims.proxy.url, settings }) }).begin(),
      );
      const asked = (await claims.together(4)).map(({ request }) =>
        new URL(request!.url, claims.proxy.url).searchParams.get("async_insert"),
      );
      expect(asked).toEqual(["0", "0", "0", "0"]);
      await Promise.all(racers.map((racer) => racer.settles()));
      const ends = await Promise.all(racers.map((racer) => racer.end()));
      expect(ends.filter(Boolean)).toHaveLength(1);
    }
  });
});

describe("over time", () => {
  it("SL-13 SL-06 a second applier is refused while the first holds, and takes it after a release; status names the row's holder", async () => {
    const of = name();
    const [one, two] = [applier(of), applier(of)];
    expect(await one.lease.status()).toMatchObject({ state: "free" });
    expect(await one.acquire()).toBe(true);
    const [row] = await logical(of, true);
    expect(await one.lease.status()).toMatchObject({ state: "held", heldBy: row!.holder, holder: row!.holder });
    expect(await two.lease.status()).toMatchObject({ state: "held-elsewhere", heldBy: row!.holder });
    expect(await two.acquire()).toBe(false);
    await one.lease.release();
    expect(await two.lease.status()).toMatchObject({ state: "free" });
    expect(await two.acquire()).toBe(true);
    expect((await logical(of, true))[0]!.holder).toBe(two.lease.holder);
  });

  it("SL-07 a release that comes after a takeover frees nothing: a third is refused and the second still holds", async () => {
    const of = name();
    const start = Date.now();
    const one = applier(of, { leaseMs: 6000 }, start);
    expect(await one.acquire()).toBe(true);
    const [two, three] = [applier(of, {}, start + 6000), applier(of, {}, start + 7002)];
    // Still held at the very millisecond of its end.
    expect(await two.acquire()).toBe(false);
    await two.clock.advance(1);
    expect(await two.acquire()).toBe(true);
    // By its clock two's claim is past: a release stamped now would replace it.
    await one.clock.advance(8000);
    await one.lease.release();
    expect(await three.acquire()).toBe(false);
    expect(await two.lease.status()).toMatchObject({ state: "held", heldBy: two.lease.holder });
    await two.lease.release();
    expect(await three.acquire()).toBe(true);
  });

  it("SL-08 releasing without holding writes nothing; leaving the block by an error releases", async () => {
    const of = name();
    const count = async () => (await logical(of, false)).length;
    await applier(of).lease.release();
    expect(await count()).toBe(0);
    const failing = (async () => {
      const one = applier(of);
      await using held = one.lease;
      expect(await one.acquire()).toBe(true);
      expect(await held.status()).toMatchObject({ state: "held" });
      throw new Error("the work failed");
    })();
    await expect(failing).rejects.toThrow("the work failed");
    expect(await logical(of, true)).toMatchObject([{ released: 1 }]);
  });

  it("SL-04 the FINAL read uses the key", async () => {
    const of = name();
    const plan = await engine.rows<{ explain: string }>(
      `EXPLAIN indexes = 1 SELECT holder FROM ${table} FINAL WHERE lock_name = {of:String}`,
      { of },
    );
    const text = plan.map((line) => line.explain).join("\n");
    expect(text).toMatch(/PrimaryKey/);
    expect(text).toMatch(/lock_name in \['schema-\d+', 'schema-\d+'\]/);
  });

  it("SL-04 the cost of the FINAL read beside folding by argMax is reported", { tags: ["slow"] }, async () => {
    const of = name();
    await engine.run(`SYSTEM STOP MERGES ${table}`);
    for (let part = 0; part < 7; part++) {
      await engine.run(`INSERT INTO ${table} VALUES ({of:String}, 'x', {at:UInt64}, 0, 1)`, { of, at: part });
    }
    const time = async (query: string) => {
      const start = performance.now();
      for (let i = 0; i < 50; i++) await engine.rows(query, { of });
      return (performance.now() - start) / 50;
    };
    const final = await time(
      `SELECT holder, acquired_at_ms, expires_at_ms, released FROM ${table} FINAL WHERE lock_name = {of:String}`,
    );
    const folded = await time(
      `SELECT argMax(holder, acquired_at_ms), argMax(expires_at_ms, acquired_at_ms), argMax(released, acquired_at_ms) FROM ${table} WHERE lock_name = {of:String}`,
    );
    await engine.run(`SYSTEM START MERGES ${table}`);
    console.log(
      `schema lease read over 7 parts: FINAL ${final.toFixed(2)} ms, argMax ${folded.toFixed(2)} ms, ratio ${(final / folded).toFixed(2)}`,
    );
    expect(final).toBeGreaterThan(0);
  });
});
