/**
 * Goal: a process that is stopped past its deadline does nothing under its old lease when it runs again. Method: a holder in a process of
 * its own on the real engine, SIGSTOP and SIGCONT; the table and the engine's log of queries are the oracles.
 */
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import { acquireLease } from "../../src/index.js";
import { sleep, startEngine, until, type Engine } from "../support/engine.js";

let engine: Engine;
beforeAll(async () => {
  engine = await startEngine();
  await engine.run("CREATE TABLE written (by String, lease String) ENGINE = MergeTree ORDER BY by");
});
afterAll(() => engine.stop());

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
