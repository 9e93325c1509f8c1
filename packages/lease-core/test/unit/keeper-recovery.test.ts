/**
 * Goal: refusals, the latch, the count of timeouts, the wait of acquire(): everything by which a keeper comes back or gives up. Method:
 * the real keeper on the simulated table and the virtual clock.
 */
import { within } from "@holdfast/deadline-http";
import { describe, expect, it, vi } from "vitest";
import type { LeaseKeeper, LeaseOptions } from "../../src/index.js";
import type { OperationPlan, OperationRecord } from "../../src/testing/index.js";
import { failureOf, requester, settle, smallSet, world, type World } from "../support/keepers.js";

const rivalId = "00000000-0000-4000-8000-000000000001";

/** A rival row at head + 1 that stands for `ttlMs`. */
async function rivalClaims({ table }: World, ttlMs: number): Promise<void> {
  const { term } = table.head("job");
  await table.insertClaim({ name: "job", term: term + 1n, leaseId: rivalId, holder: "rival", ttlMs });
}

const headsAt = ({ table }: World) =>
  table.log.filter((entry) => entry.operation === "head").map((entry) => entry.sentAt);

describe("after a refusal", () => {
  it("LS-28 the next claim waits a tick and a random part of another", async () => {
    const place = world();
    const one = place.keeper({ reacquire: "keep-trying" });
    await one.acquire();
    await rivalClaims(place, 100_000_000);
    await place.clock.advance(1000);
    expect(one.status()).toMatchObject({ state: "reacquiring", heldBy: "rival" });
    while (headsAt(place).length < 1003) await place.clock.advance(50_000);
    const looks = headsAt(place).slice(1);
    const waits = looks.slice(1).map((at, i) => at - looks[i]!);
    expect(waits.length).toBeGreaterThanOrEqual(1000);
    expect(Math.min(...waits)).toBeGreaterThanOrEqual(500);
    expect(Math.max(...waits)).toBeLessThanOrEqual(1000);
    // Both ends are reached within 5 % of the range.
    expect(Math.min(...waits)).toBeLessThan(525);
    expect(Math.max(...waits)).toBeGreaterThan(975);
    await one.stop();
  });

  it("LS-28 two keepers that contest a term are told apart by the random part, and one of them holds", async () => {
    const place = world(({ operation }) => ({ afterMs: operation === "claim" ? 20 : 5 }));
    const [one, two] = [place.keeper({ reacquire: "keep-trying" }), place.keeper({ reacquire: "keep-trying" })];
    const first = await settle(place.clock, Promise.all([one.tryAcquire(), two.tryAcquire()]));
    expect(first).toEqual([false, false]);
    expect(place.table.head("job").leases).toHaveLength(2);
    const held = () => [one, two].filter((keeper) => keeper.status().state === "held").length;
    for (let ms = 0; ms < 5 * 3000 && held() === 0; ms += 10) await place.clock.advance(10);
    expect(held()).toBe(1);
    await settle(place.clock, Promise.all([one.stop(), two.stop()]));
  });

  it("LK-14 refusals by others for 2 x TTL latch a publisher, naming the foreign holder", async () => {
    const place = world();
    const one = place.keeper({ reacquire: "latch" });
    await one.acquire();
    await rivalClaims(place, 60_000);
    await place.clock.advance(1000);
    const refusedAt = place.clock.now();
    let failedAt = 0;
    one.onChange(({ to }) => {
      if (to === "failed") failedAt = place.clock.now();
    });
    await place.clock.advance(10_000);
    expect(failedAt - refusedAt).toBeGreaterThanOrEqual(6000);
    expect(failedAt - refusedAt).toBeLessThanOrEqual(7500);
    expect(await failureOf(one.exclusive(async () => 1))).toMatchObject({ code: "LEASE_LATCHED", heldBy: "rival" });
    expect(await failureOf(one.acquire())).toMatchObject({ code: "LEASE_LATCHED" });
    expect(await one.tryAcquire()).toBe(false);
    const looks = headsAt(place).length;
    await place.clock.advance(30_000);
    expect(headsAt(place)).toHaveLength(looks);
    await one.stop();
  });

  it("a standby is never latched", async () => {
    const place = world();
    const one = place.keeper({ reacquire: "keep-trying" });
    await rivalClaims(place, 20_000);
    expect(await one.tryAcquire()).toBe(false);
    await place.clock.advance(19_000);
    expect(one.status().state).toBe("reacquiring");
    await place.clock.advance(2000);
    expect(one.status()).toMatchObject({ state: "held", reacquisitions: 0 });
    await one.stop();
  });

  it("LK-15 a rival that goes before 2 x TTL does not latch, and later refusals count from zero", async () => {
    const place = world();
    const one = place.keeper({ reacquire: "latch" });
    await one.acquire();
    for (let round = 0; round < 3; round++) {
      await rivalClaims(place, 5000);
      await place.clock.advance(6500);
      expect(one.status()).toMatchObject({ state: "held", reacquisitions: round + 1 });
    }
    await one.stop();
  });

  it("LK-16 LK-17 a refusal by our own late claim, and the claim of unknown outcome before it, restart the refusal clock", async () => {
    let late = false;
    const place = world(({ operation }): OperationPlan | undefined => {
      if (operation !== "claim" || !late) return undefined;
      late = false;
      return { beforeMs: 1500 };
    });
    const one = place.keeper({ reacquire: "latch" });
    await one.acquire();
    // The rival's row goes 4 s after it first refused; our next claim lands 1.5 s late, after its bound of 1 s, inside our quarantine.
    await rivalClaims(place, 5000);
    const states = new Set<string>();
    for (let ms = 0; ms < 12_000; ms += 100) {
      if (ms === 4000) late = true;
      await place.clock.advance(100);
      states.add(one.status().state);
    }
    expect([...states]).toEqual(expect.arrayContaining(["reacquiring", "quarantined", "held"]));
    expect(states.has("failed")).toBe(false);
    expect(one.status().state).toBe("held");
    await one.stop();
  });

  it("LK-16 refusals by our own late row do not start the clock for the rival that comes after it", async () => {
    let late = true;
    const place = world(({ operation, leaseId }): OperationPlan | undefined => {
      if (operation !== "claim" || !late || leaseId === rivalId) return undefined;
      late = false;
      return { beforeMs: 2900 };
    });
    const one = place.keeper({ reacquire: "latch" });
    expect(await settle(place.clock, one.tryAcquire())).toBe(false);
    // Quarantined from 1 s to 4 s; the row lands at 2.9 s and refuses us until 5.9 s.
    await place.clock.advance(4850);
    expect(one.status().lastError).toMatch(/an earlier claim of our own that landed late/);
    const own = place.table.rows[0]!;
    const left = Number((own.expiresAtNs - place.table.nowNs()) / 1_000_000n);
    // A rival that is quicker takes it for 4.5 s: with our own refusals counted that would be over 6 s.
    await place.clock.advance(left);
    await rivalClaims(place, 4500);
    const states = new Set<string>();
    for (let ms = 0; ms < 6000; ms += 100) {
      await place.clock.advance(100);
      states.add(one.status().state);
    }
    expect(states.has("failed")).toBe(false);
    expect(one.status().state).toBe("held");
    await one.stop();
  });

  it("LK-16 a contested head with any foreign claimant counts as foreign and latches, naming the foreign holder", async () => {
    const place = world();
    const one = place.keeper({ reacquire: "latch", holder: "ours" });
    await one.acquire();
    const own = place.table.rows[0]!;
    await place.table.insertClaim({ name: "job", term: 2n, leaseId: own.leaseId, holder: "ours", ttlMs: 60_000 });
    await place.table.insertClaim({ name: "job", term: 2n, leaseId: rivalId, holder: "rival", ttlMs: 60_000 });
    await place.clock.advance(9000);
    expect(one.status().state).toBe("failed");
    expect(one.status().lastError).toMatch(/held by another publisher \(rival\)/);
    await one.stop();
  });
});

describe("timeouts", () => {
  /** Answers INSERTs and reads late, as a slow but healthy catalog does. */
  const slow = (insertMs: number, readMs: number) => (operation: OperationRecord) => ({
    afterMs: operation.operation === "claim" || operation.operation === "tombstone" ? insertMs : readMs,
  });
  const defaults: LeaseOptions = {};

  async function pass(
    place: World,
    one: LeaseKeeper,
    insertMs: number,
    readMs: number,
    requests: number,
  ): Promise<void> {
    const request = requester(place.clock);
    await one.exclusive(async () => {
      for (let i = 0; i < requests; i++) await request.send(i % 2 === 0 ? insertMs : readMs);
    });
  }

  it.each([
    ["small set", smallSet, 600, 200],
    ["default set", defaults, 3000, 1000],
  ])("LK-04 a slow but healthy catalog keeps the lease throughout a pass: %s", async (_, lease, insertMs, readMs) => {
    const place = world(slow(insertMs, readMs));
    const one = place.keeper({ lease, requestTimeoutMs: 60_000 });
    await settle(place.clock, one.acquire());
    const states = new Set<string>();
    one.onChange(({ to }) => states.add(to));
    for (let packs = 0; packs < 2; packs++) await settle(place.clock, pass(place, one, insertMs, readMs, 14), 200_000);
    expect([...states]).toEqual([]);
    expect(one.status()).toMatchObject({ state: "held", leaseTimeouts: 0 });
    await settle(place.clock, one.stop());
  });

  it.each([
    ["small set", smallSet, 900, 400, 15_000],
    ["default set", defaults, 4000, 1000, 130_000],
  ])(
    "LK-05 a catalog too slow to keep the lease loses it while its row lives, and the settings are named: %s",
    async (_, lease, insertMs, readMs, withinMs) => {
      const place = world(slow(insertMs, readMs));
      const one = place.keeper({ lease, requestTimeoutMs: 60_000, reacquire: "keep-trying" });
      await settle(place.clock, one.acquire({ waitMs: 60_000 }));
      const states = new Set<string>([one.status().state]);
      const start = place.clock.now();
      one.onChange(({ to }) => {
        states.add(to);
        const newest = place.table.head("job");
        if (to === "quarantined") expect(newest.leases[0]!.expiresAtNs).toBeGreaterThan(newest.nowNs);
      });
      const work = (async () => {
        for (;;) {
          if (one.status().leaseTimeoutError !== null) return;
          if (one.status().state === "held") await pass(place, one, insertMs, readMs, 14).catch(() => undefined);
          await place.clock.sleep(50);
        }
      })();
      await settle(place.clock, work, withinMs);
      expect(place.clock.now() - start).toBeLessThanOrEqual(withinMs);
      expect([...states]).toEqual(expect.arrayContaining(["held", "quarantined"]));
      expect(one.status().leaseTimeoutError).toMatch(
        /lease\.ttlMs \d+, lease\.clockSkewMs 0, catalog\.requestTimeoutMs 60000/,
      );
      place.table.plan = () => undefined;
      await settle(place.clock, one.stop());
    },
  );

  it("LK-06 a claim that times out counts once, a refusal does not, and LK-07 the settings are named from the third on", async () => {
    let silent = true;
    const place = world(({ operation }) => (silent && operation === "head" ? { fate: "unanswered" } : undefined));
    const one = place.keeper({ reacquire: "keep-trying" });
    for (let count = 1; count <= 3; count++) {
      expect(await settle(place.clock, one.tryAcquire())).toBe(false);
      expect(one.status().leaseTimeouts).toBe(count);
      expect(one.status().leaseTimeoutError === null).toBe(count < 3);
      if (count < 3) await place.clock.advance(499);
      silent = count < 3;
      if (count < 3) await place.clock.advance(1);
    }
    const { leaseTimeoutError, lastError } = one.status();
    for (const text of [
      "lease.ttlMs 3000",
      "lease.clockSkewMs 0",
      "catalog.requestTimeoutMs 20000",
      "lease.ttlMs / 3 1000",
    ]) {
      expect(leaseTimeoutError).toContain(text);
      expect(lastError).toContain(text);
    }
    await rivalClaims(place, 2000);
    await place.clock.advance(1000);
    expect(one.status().leaseTimeouts).toBe(3);
    await one.stop();
  });

  it("LK-06 each timeout that costs the lease counts once, however it is noticed", async () => {
    type Lose = (place: World, one: LeaseKeeper) => Promise<unknown>;
    const stall = (place: World, which: string) => {
      place.table.plan = ({ operation }) => (operation === which ? { fate: "unanswered" } : undefined);
    };
    const ways: Record<string, Lose> = {
      "renewal stalls in its head read": async (place) => (stall(place, "head"), place.clock.advance(2900)),
      "renewal stalls in its INSERT": async (place) => (stall(place, "claim"), place.clock.advance(2900)),
      "renewal stalls in its read-back": async (place) => (stall(place, "term"), place.clock.advance(2900)),
      "the server's time limit ends a renewal": async (place) => {
        place.table.plan = ({ operation }) => (operation === "claim" ? { fate: "limited" } : undefined);
        await place.clock.advance(1000);
      },
      "the deadline passes while the process is stopped": async (place) => {
        place.clock.suspend(2900);
        await place.clock.advance(200);
      },
      "a request of a stretch runs the lease out": async (place, one) => {
        stall(place, "head");
        await failureOf(
          settle(
            place.clock,
            one.exclusive(() => requester(place.clock).send(5000)),
          ),
        );
      },
      "a request of a stretch times out and its outcome quarantines": async (place, one) =>
        failureOf(
          settle(
            place.clock,
            one.exclusive(async (stretch) => {
              const error = await failureOf(requester(place.clock).send(5000));
              stretch.quarantine(error);
              throw new Error("given up");
            }),
          ),
        ),
      "a renewal inside a stretch stalls": async (place, one) => {
        stall(place, "claim");
        await failureOf(
          settle(
            place.clock,
            one.exclusive(async () => {
              const request = requester(place.clock);
              for (let i = 0; i < 5; i++) await request.send(600);
            }),
          ),
        );
      },
    };
    const counts: Record<string, number> = {};
    for (const [way, lose] of Object.entries(ways)) {
      const place = world();
      const one = place.keeper();
      await one.acquire();
      await lose(place, one);
      await place.clock.advance(100);
      expect([way, one.status().state]).toEqual([way, "quarantined"]);
      counts[way] = one.status().leaseTimeouts;
      place.table.plan = () => undefined;
      await settle(place.clock, one.stop());
    }
    expect(counts).toEqual(Object.fromEntries(Object.keys(ways).map((way) => [way, 1])));
  });

  it("LK-06 a lease lost to a refusal adds nothing", async () => {
    const place = world();
    const one = place.keeper();
    await one.acquire();
    await rivalClaims(place, 3000);
    await place.clock.advance(1000);
    expect(one.status()).toMatchObject({ state: "none", leaseTimeouts: 0 });
    await one.stop();
  });

  it("LK-08 the count outlives successful claims and renewals and clears once a lease was held for 2 x TTL", async () => {
    const place = world();
    const one = place.keeper({ reacquire: "keep-trying" });
    await one.acquire();
    for (let round = 1; round <= 3; round++) {
      await place.clock.advance(2500);
      expect(one.status().renewals).toBeGreaterThan(round);
      place.table.plan = ({ operation }) => (operation === "claim" ? { fate: "limited-empty" } : undefined);
      while (one.status().state === "held") await place.clock.advance(100);
      place.table.plan = () => undefined;
      expect(one.status().leaseTimeouts).toBe(round);
      while (one.status().state !== "held") await place.clock.advance(10);
    }
    const since = place.clock.now();
    await place.clock.advance(2 * 3000 - 20);
    await one.exclusive(async () => undefined);
    expect(one.status().leaseTimeouts).toBe(3);
    expect(one.status().leaseTimeoutError).not.toBeNull();
    await place.clock.advance(since + 6000 - place.clock.now());
    await one.exclusive(async () => undefined);
    expect(one.status()).toMatchObject({ leaseTimeouts: 0, leaseTimeoutError: null });
    await one.stop();
  });

  it("LK-09 a claim confirmed after its own deadline is no success", async () => {
    const place = world(({ operation }) => ({ afterMs: operation === "head" ? 0 : 950 }));
    const one = place.keeper({ lease: { ...smallSet, clockSkewMs: 1200 }, reacquire: "keep-trying" });
    const states = new Set<string>();
    one.onChange(({ to }) => states.add(to));
    expect(await settle(place.clock, one.tryAcquire())).toBe(false);
    for (let round = 1; round <= 5; round++) {
      // The loop claims by itself as soon as each quarantine is over.
      while (one.status().leaseTimeouts < round) await place.clock.advance(50);
      expect(one.status()).toMatchObject({ state: "quarantined", leaseTimeouts: round, reacquisitions: 0 });
    }
    expect(states.has("held")).toBe(false);
    expect(one.status().leaseTimeoutError).toContain("lease.clockSkewMs 1200");
    place.table.plan = () => undefined;
    await settle(place.clock, one.stop());
  });
});

describe("acquire", () => {
  it("CS-02 a first read that times out is tried again inside the wait", async () => {
    let first = true;
    const place = world(({ operation }) => {
      if (operation !== "head" || !first) return undefined;
      first = false;
      return { afterMs: 1500 };
    });
    const one = place.keeper();
    const start = place.clock.now();
    await settle(place.clock, one.acquire());
    expect(place.clock.now() - start).toBeGreaterThanOrEqual(1000);
    expect(place.clock.now() - start).toBeLessThanOrEqual(3000);
    expect(one.status().state).toBe("held");
    await one.stop();
  });

  it.each<[string, OperationPlan]>([
    ["never delivered", { fate: "undelivered" }],
    ["delivered 1.5 s late", { beforeMs: 1500 }],
  ])("CS-03 waits out the quarantine its own claim left, once, even past the wait: %s", async (_, plan) => {
    let first = true;
    const place = world(({ operation }) => {
      if (operation !== "claim" || !first) return undefined;
      first = false;
      return plan;
    });
    const one = place.keeper();
    const start = place.clock.now();
    await settle(place.clock, one.acquire({ waitMs: 4000 }));
    expect(place.clock.now() - start).toBeGreaterThanOrEqual(3900);
    expect(place.clock.now() - start).toBeLessThanOrEqual(7000);
    await one.stop();
  });

  it("CS-04 a second such timeout ends it, within the wait and 2 x TTL, naming the settings", async () => {
    const place = world(({ operation }) => (operation === "claim" ? { fate: "undelivered" } : undefined));
    const one = place.keeper();
    const start = place.clock.now();
    const error = await failureOf(settle(place.clock, one.acquire({ waitMs: 4000 })));
    expect(place.clock.now() - start).toBeLessThanOrEqual(4000 + 2 * 3000);
    expect(place.table.log.filter((entry) => entry.operation === "claim")).toHaveLength(2);
    expect(error).toMatchObject({ code: "LEASE_QUARANTINED", outcome: "unknown", timedOut: true });
    expect(error.message).toContain("lease.startWaitMs");
    await settle(place.clock, one.stop());
  });

  it("CS-05 a server limit is handled as a timeout, any other error ends it at once, and so does a wait of 0", async () => {
    const outcomes: Record<string, string> = {};
    for (const [name, plan, waitMs] of [
      ["limited", { fate: "limited-empty" }, 4000],
      ["broken", { fate: "broken" }, 4000],
      ["limited, wait 0", { fate: "limited-empty" }, 0],
    ] as const) {
      let first = true;
      const place = world(({ operation }) => {
        if (operation !== "claim" || !first) return undefined;
        first = false;
        return plan;
      });
      const one = place.keeper();
      const start = place.clock.now();
      const done = await settle(
        place.clock,
        one.acquire({ waitMs }).then(
          () => "held",
          (error: unknown) => (error as { code: string }).code,
        ),
      );
      outcomes[name] = `${done} after ${place.clock.now() - start}`;
      await settle(place.clock, one.stop());
    }
    expect(outcomes).toEqual({
      limited: "held after 3000",
      broken: "LEASE_QUARANTINED after 0",
      "limited, wait 0": "LEASE_QUARANTINED after 0",
    });
  });

  it("CF-08 a wait of 0 with a rival is one look, refused with the rival's name and the wait", async () => {
    const place = world();
    await rivalClaims(place, 3000);
    const one = place.keeper({ lease: { ...smallSet, startWaitMs: 0 } });
    const error = await failureOf(one.acquire());
    expect(error).toMatchObject({ code: "LEASE_HELD", heldBy: "rival", remainingMs: 3000 });
    expect(error.message).toMatch(/gave up after a wait of 0 ms \(lease\.startWaitMs\)/);
    expect(headsAt(place)).toHaveLength(1);
    await one.stop();
  });

  it("outlives a predecessor that was killed", async () => {
    const place = world();
    await rivalClaims(place, 3000);
    const one = place.keeper();
    const start = place.clock.now();
    await settle(place.clock, one.acquire());
    expect(place.clock.now() - start).toBeLessThanOrEqual(3000 + 2 * 500);
    await one.stop();
  });

  it("in a quarantine that was there before, a wait of 0 fails at once and a longer one waits it out inside the wait", async () => {
    let broken = true;
    const place = world(({ operation }) => (operation === "claim" && broken ? { fate: "broken" } : undefined));
    const one = place.keeper();
    expect(await one.tryAcquire()).toBe(false);
    broken = false;
    expect(await failureOf(one.acquire({ waitMs: 0 }))).toMatchObject({ code: "LEASE_QUARANTINED" });
    expect(await failureOf(one.acquire({ waitMs: 2000 }))).toMatchObject({ code: "LEASE_QUARANTINED" });
    const start = place.clock.now();
    await settle(place.clock, one.acquire({ waitMs: 10_000 }));
    // The claim whose answer was lost did land: it is waited out as a refusal of our own.
    expect(place.clock.now() - start).toBeLessThanOrEqual(3000 + 1000);
    await one.stop();
  });

  it.each(["signal", "deadline"])(
    "one whose caller has gone by its %s before its turn came claims nothing",
    async (by) => {
      const place = world(({ operation }) =>
        operation === "head" ? { fate: "limited-empty", afterMs: 500 } : undefined,
      );
      const { clock, table } = place;
      const one = place.keeper();
      const before = one.tryAcquire();
      const abort = new AbortController();
      const waiting = failureOf(
        by === "signal" ? one.acquire({ signal: abort.signal }) : within(100, () => one.acquire(), { clock }),
      );
      await clock.advance(100);
      abort.abort();
      expect(await waiting).toMatchObject({ outcome: "not-sent" });
      expect(await settle(clock, before)).toBe(false);
      table.plan = () => undefined;
      await clock.advance(3000);
      expect(table.log.map(({ operation }) => operation)).toEqual(["create", "head"]);
      expect(one.status().state).toBe("none");
      await one.stop();
    },
  );

  it("a wait of many looks leaves no more behind in its signal than one of few", async () => {
    const place = world();
    await rivalClaims(place, 3000);
    const one = place.keeper();
    const any = vi.spyOn(AbortSignal, "any");
    const waiting = one.acquire({ signal: new AbortController().signal, waitMs: 10_000 });
    await settle(place.clock, waiting);
    expect(headsAt(place).length).toBeGreaterThan(8);
    // The scopes of deadline-http make none. On Node 20 the sources keep an entry for each.
    expect(any).toHaveBeenCalledTimes(1);
    any.mockRestore();
    await one.stop();
  });

  it("an aborted acquire frees its caller with CANCELED", async () => {
    const place = world();
    await rivalClaims(place, 3000);
    const one = place.keeper();
    const abort = new AbortController();
    const waiting = failureOf(one.acquire({ signal: abort.signal }));
    await place.clock.advance(1000);
    abort.abort();
    expect(await settle(place.clock, waiting)).toMatchObject({ code: "CANCELED", outcome: "not-sent" });
    await one.stop();
    expect(place.clock.pending).toBe(0);
  });
});
