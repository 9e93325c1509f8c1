/**
 * Goal: whatever takes a holder out, it and its successor are never shown held at one time, nor the holder past the end of its row. Method: a holder in a process
 * of its own on a real server: cut off, blocked, stopped; the rows are the oracle for what holder and rival said at each instant.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { until } from "@holdfast-private/tests-machine";
import { startFaultProxy } from "@holdfast/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Child } from "../support/child.js";
import { startEngine, type Engine } from "../support/engine.js";
import { judge, watch } from "../support/watch.js";

// Above 0, so that a deadline without it shows: the holder has to be gone that much before the end of its row.
const clockSkewMs = 400;
const atItsDeadline = ["deadline-passed", "renewal-timed-out"];
let engine: Engine;
let directory: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "holdfast-takeover-"));
  engine = await startEngine();
});
afterAll(async () => {
  await engine.stop();
  await rm(directory, { recursive: true });
});

/** Blocks the holder's loop till its end is asked for; with a signal the whole process stops meanwhile. */
async function blocked(holder: Child, file: string, stopped: boolean): Promise<() => Promise<void>> {
  await rm(file, { force: true });
  holder.tell({ block: file });
  await holder.said("blocking");
  if (stopped) holder.process.kill("SIGSTOP");
  return async () => {
    // Before it goes on: the first thing it does then is to look.
    await writeFile(file, "");
    if (stopped) holder.process.kill("SIGCONT");
  };
}

// Together: nearly all of their time is a row's that has to expire.
describe.concurrent("a holder", () => {
  it("LK-11 LS-26 that is cut off from the catalog is gone before its row is, and a rival follows", async () => {
    let refusing = false;
    await using proxy = await startFaultProxy({
      target: engine.target,
      accept: () => (refusing ? { cut: "rst" } : undefined),
    });
    const seen = await watch(engine, { url: proxy.url, name: "cut off", clockSkewMs }, async () => {
      // Between two renewals: a claim of unknown outcome would end the lease long before its deadline.
      await until("a claim has been confirmed", () => {
        const last = proxy.requests.at(-1);
        return (
          last?.answerComplete === true && last.request?.bodyStart.startsWith("SELECT toString(lease_id)") === true
        );
      });
      refusing = true;
      proxy.cutAll("rst");
      return () => void (refusing = false);
    });
    judge(seen);
    expect(atItsDeadline).toContain(seen.watched.reason);
  });

  it.each([
    ["whose event loop is blocked", false],
    ["that is stopped in the middle of a turn", true],
  ])("LK-20 %s past its row is told that it has lost as its first act", async (what, stopped) => {
    const seen = await watch(engine, { name: what, clockSkewMs }, (holder) =>
      blocked(holder, join(directory, what), stopped),
    );
    judge(seen);
    const { block, reason } = seen.watched;
    // Told by whoever asked, in that very turn.
    expect(block).toMatchObject({ before: { 1: "held" }, after: { 1: "quarantined" }, told: true });
    expect(atItsDeadline).toContain(reason);
  });

  it("LK-20 that is stopped while its loop is free is never shown held after, whatever runs first", async () => {
    const seen = await watch(engine, { name: "stopped", clockSkewMs }, (holder) => {
      holder.process.kill("SIGSTOP");
      return Promise.resolve(async () => void holder.process.kill("SIGCONT"));
    });
    judge(seen);
    expect(atItsDeadline).toContain(seen.watched.reason);
  });
});
