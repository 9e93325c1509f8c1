import { bindFetch } from "@holdfast/deadline-http/fetch";
import type { VirtualClock } from "@holdfast/deadline-http/testing";
import {
  createLeaseKeeper,
  leaseConfig,
  LeaseCoordinator,
  type LeaseKeeper,
  type LeaseKeeperOptions,
  type LeaseOptions,
} from "../../src/index.js";
import { SimulatedLeaseTable, type OperationPlan, type OperationRecord } from "../../src/testing/index.js";
import { SteppingClock } from "./clocks.js";

/** The two sets of settings that the requirements are measured with. */
export const smallSet: LeaseOptions = { ttlMs: 3000, publishTimeoutMs: 1000, clockSkewMs: 0 };
export const smallRequestTimeoutMs = 20_000;

/** A repeatable source of numbers in [0, 1). */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

export interface World {
  readonly clock: SteppingClock;
  readonly table: SimulatedLeaseTable;
  keeper(o?: Partial<LeaseKeeperOptions>): LeaseKeeper;
  coordinator(holder: string, o?: { lease?: LeaseOptions; requestTimeoutMs?: number }): LeaseCoordinator;
}

/** One simulated table on one virtual clock, and holders on it. Everything is repeatable. */
export function world(plan?: (operation: OperationRecord) => OperationPlan | undefined): World {
  const clock = new SteppingClock({ startMs: 1000 });
  const table = new SimulatedLeaseTable({ clock, ...(plan === undefined ? {} : { plan }) });
  let made = 0;
  return {
    clock,
    table,
    keeper: (o = {}) =>
      createLeaseKeeper({
        name: "job",
        holder: `holder-${(made += 1)}`,
        leaseTable: table,
        lease: smallSet,
        requestTimeoutMs: smallRequestTimeoutMs,
        clock,
        random: seeded(made),
        ...o,
      }),
    coordinator: (holder, o = {}) =>
      new LeaseCoordinator({
        table,
        name: "job",
        holder,
        clock,
        random: seeded((made += 1)),
        config: leaseConfig({
          lease: o.lease ?? smallSet,
          catalog: { requestTimeoutMs: o.requestTimeoutMs ?? smallRequestTimeoutMs },
        }),
      }),
  };
}

/** Lets virtual time pass, timer by timer, until the promise settles; fails when it takes more than `limitMs`. */
export async function settle<T>(clock: SteppingClock, work: Promise<T>, limitMs = 60_000): Promise<T> {
  let done = false;
  const noted = work.finally(() => (done = true));
  noted.catch(() => undefined);
  const start = clock.now();
  await clock.advance(0);
  while (!done) {
    if (clock.now() - start > limitMs) throw new Error(`not settled after ${limitMs} virtual ms`);
    await clock.next();
  }
  return noted;
}

/** The error that a promise rejects with. */
export async function failureOf(
  work: Promise<unknown>,
): Promise<{ code: string; message: string; [more: string]: unknown }> {
  try {
    await work;
  } catch (error) {
    return error as { code: string; message: string };
  }
  throw new Error("expected a failure, got a success");
}

/** A request like any other of a stretch: it obeys the scopes it is made in, and is answered after `ms` of virtual time. */
export function requester(clock: VirtualClock): { send(ms: number): Promise<void>; readonly sentAt: number[] } {
  const sentAt: number[] = [];
  let answerMs = 0;
  const bound = bindFetch(
    (_input, init) =>
      new Promise((resolve, reject) => {
        sentAt.push(clock.now());
        const timer = clock.setTimer(answerMs, () => resolve(new Response("ok")));
        init?.signal?.addEventListener("abort", () => {
          timer.cancel();
          reject(init.signal?.reason as Error);
        });
      }),
    { clock },
  );
  return {
    sentAt,
    async send(ms) {
      answerMs = ms;
      await (await bound("http://127.0.0.1:1/")).text();
    },
  };
}
