/**
 * Goal: a process that is stopped until its lease is over does nothing under it when it runs again. Method: a holder in a process of its own on
 * a real server that stops itself while it holds, between two statements or in the middle of a body; it is resumed once a rival holds. The
 * table and the log of a forwarder are the oracles.
 */
import { until } from "@holdfast-private/tests-machine";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createLeaseKeeper, type LeaseKeeper } from "../../src/index.js";
import { Child } from "../support/child.js";
import { startEngine, type Engine } from "../support/engine.js";
import { leaseRows } from "../support/lease-rows.js";
import { slowReader } from "../support/slow-reader.js";
import type { Orders, Resumed } from "../support/writing-holder.js";

/** Of the long statement: more than the kernel takes from a writer whose reader has stopped. */
const bodyBytes = 16_000_000;
/** In the head of its request. */
const marker = "param_by=long";
/** Of that, before the forwarder stops reading. */
const readBytes = 200_000;

let engine: Engine;
beforeAll(async () => {
  engine = await startEngine();
  await engine.run("CREATE TABLE written (by String, lease String) ENGINE = MergeTree ORDER BY by");
});
afterAll(() => engine.stop());

const rowsOf = (lease: string) =>
  engine.rows("SELECT by FROM written WHERE lease = {lease:String} ORDER BY by", { lease });

/** As a job of the rival does it. */
async function publish(rival: LeaseKeeper): Promise<void> {
  const { predicate, params, settings } = await rival.whileHeld(async (held) => held.fence());
  await engine.client().command({
    query: `INSERT INTO written SELECT 'rival', {lease:String} WHERE ${predicate}`,
    query_params: { ...params, lease: rival.status().leaseId },
    clickhouse_settings: { ...settings },
  });
}

// Together: most of their time is that of a row that has to expire.
describe.concurrent("LK-20 LK-25 a holder stopped until its lease is over", () => {
  it.each([
    ["between two statements", false],
    ["in the middle of a body", true],
  ])("%s does nothing under it when it resumes", async (where, long) => {
    await using proxy = await slowReader(engine.target);
    const ttlMs = Math.round(2000 * (await engine.pace()));
    const orders: Orders = {
      connection: engine.connection,
      writesUrl: proxy.url,
      name: where,
      ttlMs,
      long,
      bodyBytes,
    };
    await using child = new Child("writing-holder.ts", orders);
    if (long) {
      // Again, should the lease be over by then.
      const cue = () => child.tell({ half: true });
      proxy.stopAfter(marker, readBytes, cue);
      child.process.on("message", (message) => {
        if (!("over" in (message as object))) return;
        proxy.goOn();
        proxy.stopAfter(marker, readBytes, cue);
      });
    }
    const { stopping: leaseId } = await child.said<{ stopping: string }>("stopping");
    // What it had handed over before it was stopped comes in now, and is no byte that leaves later.
    proxy.goOn();
    // Bounds that no machine needs: its statements are not what is tested.
    const lease = { ttlMs: 600_000, publishTimeoutMs: 100_000 };
    await using rival = createLeaseKeeper({
      client: engine.client(),
      name: where,
      lease,
      requestTimeoutMs: 200_000,
    });
    await rival.acquire({ waitMs: 600_000 });
    await publish(rival);
    await proxy.quiet();
    const own = (await leaseRows(engine, where)).filter((row) => row.leaseId === leaseId);
    const over = own.at(-1)!.expires;
    const before = { rows: await rowsOf(leaseId), requests: proxy.requests(), bytes: proxy.bytes() };
    // In the middle: more of the body is to come than has come.
    if (long) expect(proxy.bytesSince(marker)).toBeLessThan(bodyBytes - 1_000_000);

    child.process.kill("SIGCONT");
    const { ends, check, state, reason, turns } = await child.said<Resumed>("ends");
    expect(check).toBe("lost");
    // A quarantine lasts a TTL from when the loss was seen.
    expect(["quarantined", "none"]).toContain(state);
    expect(["deadline-passed", "renewal-timed-out"]).toContain(reason);
    expect(ends).toHaveLength(long ? 4 : 3);
    for (const end of ends.slice(-3)) expect(["LEASE_QUARANTINED", "LEASE_LOST"]).toContain(end);
    expect(ends[0]).not.toBe("written");
    // Told in the first turn of its event loop, or by whoever asked before.
    expect(turns.filter(([at, told]) => at >= over && !told)).toEqual([]);
    expect(turns.some(([at]) => at >= over)).toBe(true);
    // No new request left; without a body that was half written not one byte. Of such a body the event loop hands on what one write had left in
    // its queue, before any code of ours runs (docs/deadlines.md): it added nothing.
    await proxy.quiet();
    if (long) await until("the half-written request ended", () => proxy.ended(marker));
    expect(proxy.requests()).toBe(before.requests);
    expect(proxy.bytes() - before.bytes).toBeLessThanOrEqual(long ? 64 * 1024 : 0);
    expect(await rowsOf(leaseId)).toEqual(before.rows);
    // The rival works on.
    await publish(rival);
    expect(await rowsOf(rival.status().leaseId!)).toHaveLength(2);
  });
});
