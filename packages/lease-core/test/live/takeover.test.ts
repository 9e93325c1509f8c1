/**
 * Goal: whatever takes a holder out, it and its successor are never shown held at one time, nor the holder past the end of its row. Method: a holder in a process
 * of its own on the real engine behind the fault proxy: cut off, blocked, stopped; another process samples the rows, which are the oracle.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startFaultProxy, type FaultProxy } from "@holdfast/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startEngine, type Engine } from "../support/engine.js";
import { judge, watch, type Child } from "../support/watch.js";

// Above 0, so that a deadline without it shows: the holder has to be gone that much before the end of its row.
const clockSkewMs = 400;
let engine: Engine;
let proxy: FaultProxy;
let refusing = false;
let directory: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "holdfast-takeover-"));
  engine = await startEngine();
  proxy = await startFaultProxy({
    target: { port: Number(new URL(engine.server.url).port) },
    accept: () => (refusing ? { cut: "rst" } : undefined),
  });
});
afterAll(async () => {
  await proxy[Symbol.asyncDispose]();
  await engine.stop();
  await rm(directory, { recursive: true });
});

it("LK-11 LS-26 a holder that is cut off from the catalog is gone before its row is, and a rival follows", async () => {
  const seen = await watch(engine, { url: proxy.url, name: "cut off", clockSkewMs }, async () => {
    // Between two renewals: a claim of unknown outcome would end the lease long before its deadline.
    await proxy.until(() => {
      const last = proxy.requests.at(-1);
      return last?.answerComplete === true && last.request?.bodyStart.startsWith("SELECT toString(lease_id)") === true;
    });
    refusing = true;
    proxy.cutAll("rst");
    return async () => void (refusing = false);
  });
  const { expires } = judge(seen);
  expect(["deadline-passed", "renewal-timed-out"]).toContain(seen.watched.reason);
  const { quarantineBegan, loopDelayMs } = seen.watched;
  expect(quarantineBegan! - loopDelayMs).toBeLessThan(expires - clockSkewMs);
});

/** Blocks the holder's loop till its end is asked for; with a signal the whole process stops meanwhile. */
async function blocked(holder: Child, file: string, stopped: boolean): Promise<() => Promise<void>> {
  const said = holder.messages.length;
  holder.process.send({ block: file });
  await holder.said(said + 1);
  if (stopped) holder.process.kill("SIGSTOP");
  return async () => {
    // Before it goes on: the first thing it does then is to look.
    await writeFile(file, "");
    if (stopped) holder.process.kill("SIGCONT");
  };
}

it.each([
  ["whose event loop is blocked", false],
  ["that is stopped in the middle of a turn", true],
])("LK-20 a holder %s past its row is told that it has lost as its first act", async (what, stopped) => {
  const seen = await watch(engine, { url: proxy.url, name: what, clockSkewMs }, (holder) =>
    blocked(holder, join(directory, what), stopped),
  );
  judge(seen, { stalled: true });
  const { firstAct, signalledAt, reason } = seen.watched;
  expect(firstAct?.[1]).toBe("quarantined");
  // Told by whoever asked, in that very turn.
  expect(signalledAt! - firstAct![0]).toBeLessThanOrEqual(250);
  expect(["deadline-passed", "renewal-timed-out"]).toContain(reason);
});

it("LK-20 a holder that is stopped while its loop is free is never shown held after, whatever runs first", async () => {
  const seen = await watch(engine, { url: proxy.url, name: "stopped", clockSkewMs }, (holder) => {
    holder.process.kill("SIGSTOP");
    return Promise.resolve(async () => void holder.process.kill("SIGCONT"));
  });
  judge(seen, { stalled: true });
  expect(["deadline-passed", "renewal-timed-out"]).toContain(seen.watched.reason);
});
