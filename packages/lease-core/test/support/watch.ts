import { fork, type ChildProcess } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import { createLeaseKeeper } from "../../src/index.js";
import { sleep, until, type Engine } from "./engine.js";
import { liveAt, type LeaseRow } from "./lease-rows.js";
import type { Sampled } from "./row-sampler.js";
import type { Look, Orders, Watched } from "./watched-holder.js";

/** A process of a test, and what it has said. */
export class Child {
  readonly messages: object[] = [];
  readonly process: ChildProcess;

  constructor(file: string, ...args: string[]) {
    this.process = fork(fileURLToPath(new URL(file, import.meta.url)), args, {
      execArgv: ["--conditions=@holdfast/source", "--import", "tsx"],
    });
    this.process.on("message", (message) => this.messages.push(message as object));
  }

  /** The `n`th thing it says, from 1. */
  async said<T>(n: number): Promise<T> {
    await until(() => {
      const { exitCode, spawnfile } = this.process;
      if (exitCode !== null && this.messages.length < n) throw new Error(`${spawnfile} ended with ${exitCode}`);
      return this.messages.length >= n;
    }, 60_000);
    return this.messages[n - 1] as T;
  }

  end(): void {
    if (this.process.exitCode === null) this.process.kill("SIGKILL");
  }
}

export interface Seen {
  readonly watched: Watched;
  readonly sampled: Sampled;
  readonly leaseId: string;
  readonly rival: { readonly leaseId: string; readonly looks: readonly Look[] };
  readonly clockSkewMs: number;
}

/**
 * Runs a holder whose statements go to `url`, lets a sampler read its rows and a rival look for the lease, and begins what `fault` does.
 * A second after the rival holds it undoes it with what `fault` gave, and everybody hands over what they saw.
 */
export async function watch(
  engine: Engine,
  orders: Orders,
  fault: (holder: Child) => Promise<(() => Promise<void>) | undefined>,
): Promise<Seen> {
  const { name, clockSkewMs } = orders;
  const holder = new Child("watched-holder.ts", JSON.stringify(orders));
  const children = [holder];
  const lease = { ttlMs: 3000, publishTimeoutMs: 1000, clockSkewMs, acquirePollMs: 20 };
  const rival = createLeaseKeeper({ client: engine.client(), name, holder: "rival", lease });
  const looks: Look[] = [];
  const looking = setInterval(() => {
    const at = Date.now();
    const { state, leaseId } = rival.status();
    looks.push([at, state, leaseId ?? null]);
  }, 5);
  try {
    const { held: leaseId } = await holder.said<{ held: string }>(1);
    const sampler = new Child("row-sampler.ts", engine.server.url, name);
    children.push(sampler);
    await sampler.said(1);
    const undo = await fault(holder);
    await rival.acquire({ waitMs: 60_000 });
    await sleep(1000);
    await undo?.();
    holder.process.send({ stop: true });
    await until(() => "looks" in (holder.messages.at(-1) ?? {}), 30_000);
    const watched = holder.messages.at(-1) as Watched;
    // The rival has gone on all the time.
    const { state, leaseId: rivalLease } = rival.status();
    expect([state, rivalLease]).toEqual(["held", expect.any(String)]);
    sampler.process.send({ stop: true });
    const sampled = await sampler.said<Sampled>(2);
    return { watched, sampled, leaseId, rival: { leaseId: rivalLease ?? "", looks }, clockSkewMs };
  } finally {
    clearInterval(looking);
    for (const child of children) child.end();
    await rival.stop();
  }
}

/** Nine in ten of 100 a second, and 20 around the end of the row; or nothing was measured. */
function expectOftenEnough(times: readonly number[], from: number, end: LeaseRow, clockSkewMs: number): void {
  const spanMs = times.at(-1)! - from;
  expect(times.length).toBeGreaterThanOrEqual(0.9 * (spanMs / 10));
  const deadline = end.expires - clockSkewMs - 100;
  const around = times.filter((at) => at >= deadline - 200 && at <= end.expires + 1000);
  expect(around.length).toBeGreaterThanOrEqual(20);
}

/**
 * At every look and sample: who says "held" holds by the rows, the holder never from the end of its row less the skew on, and the two never
 * at one instant. `unconfirmed`: how many of the holder's newest rows were never confirmed to it. `stalled`: its process could not look.
 * @returns the row by which it held last.
 */
export function judge(seen: Seen, o: { unconfirmed?: number; stalled?: boolean } = {}): LeaseRow {
  const { watched, sampled, leaseId, rival, clockSkewMs } = seen;
  const { rows, samples, reads } = sampled;
  const own = rows.filter((row) => row.leaseId === leaseId);
  const last = own.at(-1 - (o.unconfirmed ?? 0))!;
  const began = samples[0]![0];
  expectOftenEnough(
    samples.map(([at]) => at),
    began,
    last,
    clockSkewMs,
  );
  const looks = watched.looks.filter(([at]) => at >= began);
  if (o.stalled !== true)
    expectOftenEnough(
      looks.map(([at]) => at),
      began,
      last,
      clockSkewMs,
    );
  // Both sides of the oracle were seen, the later one by a read that was sent then.
  expect(samples.some(([, live]) => live === leaseId)).toBe(true);
  expect(samples.some(([, live]) => live === rival.leaseId)).toBe(true);
  expect(reads.some((at) => at >= last.expires)).toBe(true);

  const held = watched.looks.filter(([, state]) => state === "held");
  expect(held.length).toBeGreaterThan(0);
  expect(held.filter(([at]) => at >= last.expires - clockSkewMs)).toEqual([]);
  expect(held.filter(([at, , by]) => by !== leaseId || liveAt(rows, at) !== leaseId)).toEqual([]);
  // The same by the samples as they were seen then: none says that the row is over while the holder says "held".
  const times = samples.map(([at]) => at);
  const accused = samples.filter(([at, live], n) => {
    const next = times[n + 1] ?? Infinity;
    return live !== leaseId && held.some(([look]) => look >= at && look < next);
  });
  expect(accused).toEqual([]);

  const theirs = rival.looks.filter(([, state]) => state === "held");
  expect(theirs.length).toBeGreaterThan(0);
  expect(theirs.filter(([at, , by]) => by !== rival.leaseId || liveAt(rows, at) !== rival.leaseId)).toEqual([]);
  const first = rows.find((row) => row.leaseId === rival.leaseId)!;
  expect(first.acquired).toBeGreaterThanOrEqual(own.at(-1)!.expires);
  return last;
}
