/** Goal: each relation between settings, on both sides of its bound, refused with numbers and paths. Method: the public validator. */
import { createClient } from "@clickhouse/client";
import { VirtualClock } from "@holdfast/deadline-http/testing";
import { describe, expect, it } from "vitest";
import type { LeaseError } from "../../src/index.js";
import {
  acquireLease,
  claimSettings,
  ClickHouseLeaseTable,
  createLeaseKeeper,
  leaseConfig,
  LeaseCoordinator,
  quorumSettings,
  type LeaseOptions,
} from "../../src/index.js";
import { SimulatedLeaseTable } from "../../src/testing/index.js";

type Given = LeaseOptions & { requestTimeoutMs?: number };

function refusal(given: Given): LeaseError {
  const { requestTimeoutMs, ...lease } = given;
  try {
    leaseConfig({ lease, ...(requestTimeoutMs === undefined ? {} : { catalog: { requestTimeoutMs } }) });
  } catch (error) {
    return error as LeaseError;
  }
  throw new Error(`accepted: ${JSON.stringify(given)}`);
}

describe("relations", () => {
  it.each([
    [3000, 1000, 1200],
    [15_000, 5000, 4801],
    [15_000, 5000, 5000],
    [15_000, 5000, 7200],
    [30_000, 5000, 14_700],
  ])("CF-01 ttl %i, publish %i: a skew of %i is accepted", (ttlMs, publishTimeoutMs, clockSkewMs) => {
    expect(leaseConfig({ lease: { ttlMs, publishTimeoutMs, clockSkewMs } }).clockSkewMs).toBe(clockSkewMs);
  });

  it.each([
    [3000, 1000, 1201, 1200],
    [15_000, 5000, 7201, 7200],
    [15_000, 5000, 9900, 7200],
    [30_000, 5000, 15_000, 14_700],
  ])(
    "CF-01 ttl %i, publish %i: a skew of %i is refused with the numbers",
    (ttlMs, publishTimeoutMs, clockSkewMs, most) => {
      const { code, message } = refusal({ ttlMs, publishTimeoutMs, clockSkewMs });
      expect(code).toBe("CONFIG_INVALID");
      for (const text of [`lease.clockSkewMs is ${clockSkewMs}`, `lease.ttlMs ${ttlMs}`, `at most ${most}`])
        expect(message).toContain(text);
    },
  );

  it("a TTL under 600 ms leaves no time for a renewal", () => {
    expect(refusal({ ttlMs: 599, publishTimeoutMs: 100 }).message).toMatch(
      /lease\.ttlMs is 599, but it must be at least 600/,
    );
    expect(leaseConfig({ lease: { ttlMs: 600, publishTimeoutMs: 100 } }).holdMs).toBe(500);
  });

  it("CF-02 the fence needs 100 ms, and less than 1000 is warned of", () => {
    const margin = (ms: number): Given => ({ ttlMs: 10_000, publishTimeoutMs: 10_000 - 500 - ms, clockSkewMs: 500 });
    expect(refusal(margin(99)).message).toMatch(
      /lease\.ttlMs - lease\.publishTimeoutMs - lease\.clockSkewMs = 10000 - 9401 - 500 = 99/,
    );
    const warnings = (ms: number) => leaseConfig({ lease: margin(ms) }).warnings.length;
    expect([warnings(100), warnings(999), warnings(1000)]).toEqual([1, 1, 0]);
  });

  it("CF-03 a request may take at least twice the publish timeout", () => {
    const { message } = refusal({ publishTimeoutMs: 5000, requestTimeoutMs: 9999 });
    for (const text of ["catalog.requestTimeoutMs is 9999", "lease.publishTimeoutMs", "10000"])
      expect(message).toContain(text);
    expect(
      leaseConfig({ lease: { publishTimeoutMs: 5000 }, catalog: { requestTimeoutMs: 10_000 } }).requestTimeoutMs,
    ).toBe(10_000);
  });

  it("CF-04 a quorum needs two replicas or more and a skew, and topology fixes what is asked of the server", () => {
    expect(refusal({ topology: "replicated", quorum: 1, clockSkewMs: 100 }).message).toMatch(
      /lease\.quorum is 1.*at least 2/,
    );
    expect(refusal({ topology: "replicated", quorum: 2 }).message).toMatch(/lease\.clockSkewMs is 0/);
    expect(refusal({ topology: "cloud" }).message).toMatch(/lease\.clockSkewMs is 0/);
    expect(refusal({ quorum: 2, clockSkewMs: 100 }).message).toMatch(/lease\.topology is "single"/);
    expect(refusal({ topology: "sharded" as "single" }).message).toMatch(/"sharded"/);
    const facts = (lease: LeaseOptions) => {
      const { quorum, sequentialReads } = leaseConfig({ lease });
      return { quorum, sequentialReads };
    };
    expect(facts({})).toEqual({ quorum: null, sequentialReads: false });
    expect(facts({ topology: "replicated", clockSkewMs: 100 })).toEqual({ quorum: "auto", sequentialReads: true });
    expect(facts({ topology: "replicated", quorum: 3, clockSkewMs: 100 })).toEqual({
      quorum: 3,
      sequentialReads: true,
    });
    expect(facts({ topology: "cloud", clockSkewMs: 100 })).toEqual({ quorum: null, sequentialReads: true });
  });

  const bad: readonly (readonly [LeaseOptions, number | undefined, RegExp])[] = [
    [
      { ttlMs: 3000, publishTimeoutMs: 1000, clockSkewMs: 1201 },
      undefined,
      /lease\.clockSkewMs is 1201, .* 3000 .* 1200 /,
    ],
    [
      { ttlMs: 3000, publishTimeoutMs: 2901 },
      undefined,
      /lease\.ttlMs - lease\.publishTimeoutMs - lease\.clockSkewMs = 3000 - 2901 - 0 = 99/,
    ],
    [{ ttlMs: 15_000 }, 9999, /catalog\.requestTimeoutMs is 9999, .* 10000/],
    [{ topology: "replicated", quorum: 1, clockSkewMs: 100 }, undefined, /lease\.quorum is 1;/],
    [{ topology: "replicated", quorum: 2 }, undefined, /lease\.clockSkewMs is 0, .*"replicated"/],
    [{ ttlMs: Number.NaN }, undefined, /lease\.ttlMs is NaN;/],
  ];
  it.each(bad)(
    "CF-05 every entry point refuses %o (requestTimeoutMs %s) in the same words, and sends nothing",
    (lease, requestTimeoutMs, words) => {
      const clock = new VirtualClock();
      const leaseTable = new SimulatedLeaseTable({ clock });
      const keeper = {
        name: "a",
        holder: "h",
        leaseTable,
        clock,
        lease,
        ...(requestTimeoutMs === undefined ? {} : { requestTimeoutMs }),
      };
      // As somebody would who put the numbers together by hand: all that is not asked about is right.
      const usual = leaseConfig({ lease: { ttlMs: 15_000 } });
      const config = {
        ...usual,
        ...lease,
        ...(requestTimeoutMs === undefined ? {} : { requestTimeoutMs }),
      };
      const client = createClient({ url: "http://127.0.0.1:1" });
      const entries: Record<string, () => unknown> = {
        createLeaseKeeper: () => createLeaseKeeper(keeper),
        leaseConfig: () =>
          leaseConfig({ lease, ...(requestTimeoutMs === undefined ? {} : { catalog: { requestTimeoutMs } }) }),
        LeaseCoordinator: () =>
          new LeaseCoordinator({ table: leaseTable, name: "a", holder: "h", clock, random: Math.random, config }),
        ClickHouseLeaseTable: () => new ClickHouseLeaseTable({ client, config }),
      };
      for (const [entry, make] of Object.entries(entries)) {
        expect(make, entry).toThrow(words);
        expect(make, entry).toThrow(/^\[CONFIG_INVALID\]/);
      }
      expect(leaseTable.log).toEqual([]);
    },
  );

  it("CF-05 acquireLease refuses them too; a configuration with a number that does not follow is refused by name", async () => {
    const clock = new VirtualClock();
    const leaseTable = new SimulatedLeaseTable({ clock });
    const refused = acquireLease({ name: "a", leaseTable, clock, ttlMs: 3000, lease: { clockSkewMs: 1201 } });
    await expect(refused).rejects.toMatchObject({ code: "CONFIG_INVALID" });
    const config = { ...leaseConfig(), holdMs: 15_000 };
    const make = () =>
      new LeaseCoordinator({ table: leaseTable, name: "a", holder: "h", clock, random: Math.random, config });
    expect(make).toThrow(/config\.holdMs is 15000, but 14900 follows from the other settings/);
    const other = (o: object) => () =>
      new LeaseCoordinator({
        table: leaseTable,
        name: "a",
        holder: "h",
        clock,
        random: Math.random,
        config: leaseConfig(),
        ...o,
      });
    expect(other({ name: "" })).toThrow(/name is empty/);
    expect(other({ holder: "" })).toThrow(/holder is 0 bytes/);
    expect(other({})).not.toThrow();
    expect(other({ config: leaseConfig({ lease: { topology: "replicated", clockSkewMs: 100 } }) })).not.toThrow();
    expect(leaseTable.log).toEqual([]);
  });

  it.each([Number.NaN, -1, 0.5, Infinity, "500"])(
    "CF-08 a wait of %s is refused before anything is sent",
    async (waitMs) => {
      const clock = new VirtualClock();
      const leaseTable = new SimulatedLeaseTable({ clock });
      const one = createLeaseKeeper({ name: "a", leaseTable, clock });
      await expect(one.acquire({ waitMs: waitMs as number })).rejects.toMatchObject({ code: "CONFIG_INVALID" });
      expect(leaseTable.log).toEqual([]);
      await one.stop();
    },
  );

  it("the keeper applies the same rules before it sends anything", () => {
    const clock = new VirtualClock();
    const make = () =>
      createLeaseKeeper({
        name: "a",
        leaseTable: new SimulatedLeaseTable({ clock }),
        clock,
        ttlMs: 3000,
        lease: { clockSkewMs: 1201 },
      });
    expect(make).toThrow(/^\[CONFIG_INVALID\] lease\.clockSkewMs is 1201/);
    const named = (holder: string) => () =>
      createLeaseKeeper({ name: "a", leaseTable: new SimulatedLeaseTable({ clock }), clock, holder });
    expect(named("")).toThrow(/lease\.holder is 0 bytes/);
    expect(named("é".repeat(129))).toThrow(/lease\.holder is 258 bytes/);
    expect(() => createLeaseKeeper({ name: "a" })).toThrow(/client is missing/);
  });
});

describe("values", () => {
  it("CF-06 the defaults and what follows from them", () => {
    expect(leaseConfig()).toEqual({
      ttlMs: 15_000,
      publishTimeoutMs: 5000,
      clockSkewMs: 0,
      requestTimeoutMs: 60_000,
      startWaitMs: 20_000,
      acquirePollMs: 500,
      topology: "single",
      quorum: null,
      sequentialReads: false,
      holdMs: 14_900,
      tickMs: 2500,
      renewAfterMs: 5000,
      claimBoundMs: 5000,
      latchAfterMs: 30_000,
      streakClearsAfterMs: 30_000,
      warnings: [],
    });
    // Window from ttl / 2 to the deadline, and the greatest skew.
    expect(leaseConfig().holdMs - 15_000 / 2).toBe(7400);
    expect(refusal({ clockSkewMs: 7201 }).message).toContain("at most 7200");
    const polls = [600, 3000, 15_000].map(
      (ttlMs) => leaseConfig({ lease: { ttlMs, publishTimeoutMs: 100 } }).acquirePollMs,
    );
    expect(polls).toEqual([60, 300, 500]);
    expect(leaseConfig({ lease: { ttlMs: 3000, publishTimeoutMs: 1000, clockSkewMs: 400 } }).startWaitMs).toBe(4400);
    expect(leaseConfig({ lease: { ttlMs: 700, publishTimeoutMs: 100 } }).tickMs).toBeCloseTo(116.67, 1);
    expect(
      leaseConfig({ lease: { ttlMs: 650, publishTimeoutMs: 100 }, catalog: { requestTimeoutMs: 200 } }).claimBoundMs,
    ).toBe(200);
  });

  it.each(["ttlMs", "clockSkewMs", "publishTimeoutMs", "startWaitMs", "acquirePollMs"] as const)(
    "CF-08 lease.%s must be a finite whole number of milliseconds",
    (knob) => {
      for (const value of [Number.NaN, Number.POSITIVE_INFINITY, -1, 1.5, "5000" as unknown as number]) {
        expect(refusal({ [knob]: value }).message).toMatch(
          new RegExp(`^\\[CONFIG_INVALID\\] lease\\.${knob} is .*whole number of milliseconds`),
        );
      }
    },
  );

  it("CF-08 TTL, publish timeout and request timeout are above 0; a wait of 0 and a poll are allowed", () => {
    for (const knob of ["ttlMs", "publishTimeoutMs", "requestTimeoutMs"] as const)
      expect(refusal({ [knob]: 0 }).message).toContain("above 0");
    expect(leaseConfig({ lease: { startWaitMs: 0, acquirePollMs: 20 } })).toMatchObject({
      startWaitMs: 0,
      acquirePollMs: 20,
    });
  });
});

describe("server-side limits", () => {
  it("LS-06 caps go out in seconds to the millisecond", () => {
    const cap = (msLeft: number) => {
      const { max_execution_time, lock_acquire_timeout } = claimSettings(leaseConfig(), { msLeft });
      expect(max_execution_time).toBe(lock_acquire_timeout);
      return String(max_execution_time);
    };
    expect([4999, 1999, 400, 1, 0].map(cap)).toEqual(["4.999", "1.999", "0.4", "0.001", "0.001"]);
  });

  it("LS-08 the quorum wait is the lesser of publish timeout and time left; without quorum nothing is sent", () => {
    const wait = (publishTimeoutMs: number, msLeft: number) =>
      quorumSettings(
        leaseConfig({
          lease: { ttlMs: 30_000, publishTimeoutMs, clockSkewMs: 100, topology: "replicated", quorum: 2 },
        }),
        msLeft,
      );
    expect(wait(5000, 4000)).toEqual({ insert_quorum: "2", insert_quorum_parallel: 0, insert_quorum_timeout: 4000 });
    expect(wait(5000, 10_000)).toMatchObject({ insert_quorum_timeout: 5000 });
    expect(wait(5000, 0.4)).toMatchObject({ insert_quorum_timeout: 1 });
    expect(quorumSettings(leaseConfig(), 4000)).toEqual({});
    expect(claimSettings(leaseConfig(), { msLeft: 4000 })).toEqual({
      max_execution_time: 4,
      lock_acquire_timeout: 4,
      timeout_overflow_mode: "throw",
      async_insert: 0,
      insert_deduplicate: 0,
    });
  });
});
