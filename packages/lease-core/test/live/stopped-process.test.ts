/**
 * Goal: a process that is stopped past its deadline does nothing under its old lease when it runs again. Method: a holder in a process of
 * its own on the real engine, SIGSTOP and SIGCONT; the table, the engine's log of queries and that of a forwarder are the oracles.
 */
import { fork } from "node:child_process";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import { acquireLease } from "../../src/index.js";
import { sleep, startEngine, until, type Engine } from "../support/engine.js";
import { slowReader } from "../support/slow-reader.js";

const delay = monitorEventLoopDelay({ resolution: 5 });
const loopDelayMs = () => delay.max / 1e6;

let engine: Engine;
beforeAll(async () => {
  delay.enable();
  engine = await startEngine();
  await engine.run("CREATE TABLE written (by String, lease String) ENGINE = MergeTree ORDER BY by");
});
afterAll(() => engine.stop());

/** Of the long statements of the writing holder. */
const bodyBytes = 8_000_000;

const rowsBy = async (by: string) =>
  Number((await engine.rows<{ n: string }>("SELECT count() AS n FROM written WHERE by = {by:String}", { by }))[0]!.n);

it("LK-20 a holder that was stopped past its TTL says at once that the lease is lost, and writes nothing under it", async () => {
  const path = fileURLToPath(new URL("../support/holder-process.ts", import.meta.url));
  const child = fork(path, [engine.server.url, "job"], {
    execArgv: ["--conditions=@holdfast/source", "--import", "tsx"],
  });
  try {
    const messages: object[] = [];
    child.on("message", (message) => messages.push(message as object));
    await until(() => messages.length === 1, 60_000);
    await until(async () => (await rowsBy("stopped one")) >= 3);
    child.kill("SIGSTOP");
    await sleep(200);
    const rival = await acquireLease({
      client: engine.client(),
      name: "job",
      holder: "rival",
      waitMs: 30_000,
    });
    await sleep(1000);
    const before = await rowsBy("stopped one");
    const queries = async () =>
      (await engine.server.recentQueries()).filter((one) => one.query.startsWith("INSERT INTO written")).length;
    const sentBefore = await queries();
    child.kill("SIGCONT");
    await until(() => messages.length === 2);
    const [, seen] = messages as [object, { check: string; state: string; refused: string[] }];
    expect(seen.check).toBe("lost");
    expect(["quarantined", "none"]).toContain(seen.state);
    await sleep(500);
    expect(await rowsBy("stopped one")).toBe(before);
    // What it had sent before it was stopped may be logged after; a new statement is not made.
    expect((await queries()) - sentBefore).toBeLessThanOrEqual(1);
    expect(rival.status().state).toBe("held");
    await rival.stop();
  } finally {
    child.kill("SIGCONT");
    child.send({ stop: true });
    await until(() => child.exitCode !== null, 30_000);
  }
});

it.each([
  ["between two statements", false],
  ["in the middle of a body", true],
])(
  "LK-25 a holder stopped %s for a TTL and a second does nothing under its old lease when it resumes",
  async (_, long) => {
    const name = long ? "long" : "short";
    const proxy = await slowReader(engine.server.url);
    const path = fileURLToPath(new URL("../support/writing-holder.ts", import.meta.url));
    const child = fork(path, [engine.server.url, proxy.url, name], {
      execArgv: ["--conditions=@holdfast/source", "--import", "tsx"],
    });
    try {
      const messages: object[] = [];
      child.on("message", (message) => messages.push(message as object));
      await until(() => messages.length === 1, 60_000);
      const { held: leaseId } = messages[0] as { held: string };
      const rowsOf = async (lease: string) =>
        Number(
          (
            await engine.rows<{ n: string }>("SELECT count() AS n FROM written WHERE lease = {lease:String}", { lease })
          )[0]!.n,
        );
      await until(async () => (await rowsOf(leaseId)) >= 3);
      if (long) {
        const caught = proxy.stopAfter("SELECT 'long'", 200_000);
        child.send({ long: true });
        await caught;
      }
      const begunAt = proxy.bytes();
      child.kill("SIGSTOP");
      // What it had handed over before it was stopped comes in now, and is no byte that leaves later.
      proxy.goOn();
      const stoppedAt = performance.now();
      const rival = await acquireLease({
        client: engine.client(),
        name,
        holder: "rival",
        ttlMs: 3000,
        lease: { publishTimeoutMs: 1000 },
        waitMs: 30_000,
      });
      const catalog = engine.client();
      const rivalWrites = async () => {
        const { predicate, params, settings } = await rival.whileHeld(async (held) => held.fence());
        await catalog.command({
          query: `INSERT INTO written SELECT 'rival', {lease:String} WHERE ${predicate}`,
          query_params: { ...params, lease: rival.status().leaseId },
          clickhouse_settings: { ...settings },
        });
      };
      await rivalWrites();
      await sleep(Math.max(0, stoppedAt + 4000 - performance.now()));
      const [before, longBefore] = [await rowsOf(leaseId), await rowsBy("long")];
      const requests = () => proxy.sent().split("POST /").length - 1;
      const requestsBefore = requests();
      const bytesBefore = proxy.bytes();
      // In the middle: more of the body is to come than has come since it began (200,000 bytes and less before `begunAt`).
      if (long) expect(bytesBefore - begunAt).toBeLessThan(bodyBytes - 400_000);
      const resumedAt = Date.now();
      child.kill("SIGCONT");
      await until(() => messages.length === 2, 30_000);
      const seen = messages[1] as { check: string; refused: string[]; signalledAt: number; reason: string };
      expect(seen.check).toBe("lost");
      expect(["deadline-passed", "renewal-timed-out"]).toContain(seen.reason);
      expect(seen.refused).toHaveLength(4);
      for (const code of seen.refused.slice(1)) expect(["LEASE_LOST", "LEASE_QUARANTINED"]).toContain(code);
      // By the wall clock of the holder, which shares this machine's; what kept this process from running is not the holder's.
      expect(seen.signalledAt - resumedAt).toBeLessThanOrEqual(250 + loopDelayMs());
      await sleep(500);
      // No new request left; without a body that was half written not one byte. Of such a body the event loop hands on what one write had
      // left in its queue, before any code of ours runs (docs/deadlines.md): it added nothing.
      expect(requests()).toBe(requestsBefore);
      expect(proxy.bytes() - bytesBefore).toBeLessThanOrEqual(long ? 64 * 1024 : 0);
      expect([await rowsOf(leaseId), await rowsBy("long")]).toEqual([before, longBefore]);
      // The rival works on.
      await rivalWrites();
      expect(await rowsOf(rival.status().leaseId!)).toBe(2);
      expect(rival.status().state).toBe("held");
      await rival.stop();
    } finally {
      child.kill("SIGCONT");
      child.send({ stop: true });
      await until(() => child.exitCode !== null, 30_000);
      await proxy.stop();
    }
  },
);
