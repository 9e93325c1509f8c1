/**
 * Goal: the keeper as its users see it: held and lost, in time, and never held for longer than it may say so. Method: the real keeper on
 * the simulated table and the virtual clock.
 */
import { remainingMs, within } from "@holdfast/deadline-http";
import { describe, expect, it } from "vitest";
import type { LeaseKeeper } from "../../src/index.js";
import type { OperationPlan } from "../../src/testing/index.js";
import { failureOf, requester, settle, world } from "../support/keepers.js";

const heads = (table: { log: readonly { operation: string; sentAt: number }[] }) =>
  table.log.filter((entry) => entry.operation === "head").map((entry) => entry.sentAt);

describe("renewal", () => {
  it.each([100, 1900])(
    "LK-01 falls due a third of the TTL after the last claim was sent, however long that took (%i ms)",
    async (claimMs) => {
      const { clock, table, keeper } = world(({ operation }) => ({ afterMs: operation === "claim" ? claimMs : 0 }));
      const one = keeper({ lease: {}, requestTimeoutMs: 60_000 });
      await settle(clock, one.acquire());
      const first = table.log.find((entry) => entry.operation === "claim")!.sentAt;
      await clock.advance(first + 5000 - 1 - clock.now());
      expect(heads(table)).toHaveLength(1);
      await clock.advance(1);
      expect(heads(table)[1]).toBe(first + 5000);
      await clock.advance(claimMs);
      expect(one.status()).toMatchObject({ state: "held", renewals: 1, term: "2" });
      const second = table.log.findLast((entry) => entry.operation === "claim")!.sentAt;
      await clock.advance(second + 5000 - clock.now());
      expect(heads(table)[2]).toBe(second + 5000);
      await settle(clock, one.stop());
    },
  );

  it("LK-01 one that a stretch leaves due starts when the stretch lets go of the lock", async () => {
    const { clock, table, keeper } = world();
    const one = keeper();
    await one.acquire();
    const claimed = clock.now();
    const stretch = one.exclusive(() => clock.sleep(1010));
    await clock.advance(1009);
    expect(heads(table)).toHaveLength(1);
    await clock.advance(1);
    await stretch;
    expect(heads(table)[1]).toBe(claimed + 1010);
    await one.stop();
  });

  it("LK-03 inside a stretch it goes before the next request when it is due", async () => {
    const { clock, table, keeper } = world();
    const request = requester(clock);
    const one = keeper();
    await one.acquire();
    const start = clock.now();
    await settle(
      clock,
      one.exclusive(async () => {
        for (let i = 0; i < 8; i++) await request.send(600);
      }),
    );
    // Requests begin every 600 ms; each second one finds the renewal due, and none is skipped. The last one begins when the stretch ends.
    expect(heads(table).slice(1)).toEqual([1200, 2400, 3600, 4800].map((ms) => start + ms));
    expect(request.sentAt).toHaveLength(8);
    expect(one.status()).toMatchObject({ state: "held", leaseTimeouts: 0 });
    await one.stop();
  });

  it("LS-26 one that provably sent nothing keeps the lease and goes again a tick later, until the deadline", async () => {
    let plan: OperationPlan | undefined;
    const { clock, table, keeper } = world(() => plan);
    const one = keeper();
    await one.acquire();
    plan = { fate: "not-sent" };
    await clock.advance(1900);
    expect(heads(table).slice(1)).toEqual([2000, 2500]);
    expect(one.status().state).toBe("held");
    plan = undefined;
    await clock.advance(100);
    expect(one.status()).toMatchObject({ state: "held", renewals: 1, leaseTimeouts: 0 });
    plan = { fate: "not-sent" };
    await clock.advance(2899);
    expect(one.status().state).toBe("held");
    await clock.advance(1);
    expect(one.status()).toMatchObject({ state: "quarantined", leaseTimeouts: 1 });
    expect(table.log.filter((entry) => entry.operation === "tombstone")).toHaveLength(0);
    plan = undefined;
    await settle(clock, one.stop());
  });
});

describe("loss", () => {
  it("LS-25 an unknown outcome drops the lease without a tombstone and refuses every entry for a TTL; then the first call may claim", async () => {
    let plan: OperationPlan | undefined;
    const { clock, table, keeper } = world(({ operation }) => (operation === "claim" ? plan : undefined));
    const one = keeper({ reacquire: "keep-trying" });
    await one.acquire();
    plan = { fate: "broken" };
    await clock.advance(1000);
    plan = undefined;
    const began = clock.now();
    expect(one.status()).toMatchObject({ state: "quarantined", quarantinedUntilMs: began + 3000 });
    await clock.advance(2999);
    expect((await failureOf(one.exclusive(async () => 1))).code).toBe("LEASE_QUARANTINED");
    expect((await failureOf(one.whileHeld(async () => 1))).code).toBe("LEASE_QUARANTINED");
    expect(await one.tryAcquire()).toBe(false);
    expect(heads(table).at(-1)).toBe(began);
    await one.release();
    expect(table.log.some((entry) => entry.operation === "tombstone")).toBe(false);
    await clock.advance(1);
    expect(one.status().state).toBe("none");
    expect(await one.tryAcquire()).toBe(true);
    expect(table.log.findLast((entry) => entry.operation === "claim")!.leaseId).not.toBe(table.rows[0]!.leaseId);
    await one.stop();
  });

  it.each([
    ["refused by a rival", "LEASE_HELD"],
    ["not recorded", "CLAIM_NOT_RECORDED"],
  ])("LS-25 a known outcome does not quarantine: %s", async (kind) => {
    const { clock, table, keeper } = world(({ operation }) =>
      operation === "claim" && table.rows.length > 0 && kind === "not recorded" ? { fate: "dropped" } : undefined,
    );
    const one = keeper();
    await one.acquire();
    if (kind === "refused by a rival") {
      await table.insertClaim({
        name: "job",
        term: 2n,
        leaseId: "00000000-0000-4000-8000-000000000001",
        holder: "rival",
        ttlMs: 3000,
      });
    }
    await clock.advance(1000);
    expect(one.status()).toMatchObject({ state: "none", leaseTimeouts: 0 });
    await one.stop();
  });

  it("LK-20 nothing that asks is told held past the deadline, whoever asks first", async () => {
    type Ask = (one: LeaseKeeper, check: () => string) => Promise<string>;
    const asks: Record<string, Ask> = {
      check: async (_, check) => check(),
      status: async (one) => one.status().state,
      exclusive: async (one) => (await failureOf(one.exclusive(async () => "ran"))).code,
      whileHeld: async (one) => (await failureOf(one.whileHeld(async () => "ran"))).code,
    };
    const answers: Record<string, string> = {};
    for (const [name, ask] of Object.entries(asks)) {
      const { clock, keeper } = world();
      const one = keeper();
      await one.acquire();
      let check: (() => string) | undefined;
      const job = one.whileHeld(async (held) => {
        check = () => held.check();
        await clock.sleep(10_000);
      });
      expect(check!()).toBe("held");
      // The process is stopped across the deadline: the clock moves, and no timer has run yet.
      clock.suspend(2900);
      answers[name] = await ask(one, check!);
      await clock.advance(10_000);
      await job;
      await settle(clock, one.stop());
    }
    expect(answers).toEqual({
      check: "lost",
      status: "quarantined",
      exclusive: "LEASE_QUARANTINED",
      whileHeld: "LEASE_QUARANTINED",
    });
  });

  it("LK-20 a request of a stretch that was stopped across the deadline is refused with LEASE_LOST and not sent", async () => {
    const { clock, keeper } = world();
    const request = requester(clock);
    const one = keeper();
    await one.acquire();
    const error = await failureOf(
      one.exclusive(async () => {
        clock.suspend(2900);
        await request.send(1);
      }),
    );
    expect(error).toMatchObject({ code: "LEASE_LOST", outcome: "not-sent" });
    expect(request.sentAt).toEqual([]);
    await settle(clock, one.stop());
  });

  it("LK-21 a free loop signals the loss by the deadline; a stopped one within 200 ms of running again", async () => {
    for (const suspended of [false, true]) {
      let stalled = false;
      const { clock, keeper } = world(({ operation }) =>
        stalled && operation === "head" ? { fate: "unanswered" } : undefined,
      );
      const one = keeper();
      await one.acquire();
      stalled = true;
      const claimed = clock.now();
      let signalledAt = 0;
      const job = one.whileHeld(async (held) => {
        held.signal.addEventListener("abort", () => (signalledAt = clock.now()));
        await clock.sleep(30_000);
        return (held.signal.reason as { code: string; reason: string }).reason;
      });
      if (suspended) {
        await clock.advance(1500);
        clock.suspend(20_000);
        await clock.advance(200);
        expect(signalledAt).toBeGreaterThanOrEqual(claimed + 21_500);
        expect(signalledAt).toBeLessThanOrEqual(claimed + 21_700);
      } else {
        await clock.advance(2900);
        expect(signalledAt).toBe(claimed + 2900);
      }
      await clock.advance(30_000);
      expect(await job).toBe(suspended ? "suspended" : "renewal-timed-out");
      stalled = false;
      await settle(clock, one.stop());
    }
  });

  it("LK-21 while a lease is held no timer of the keeper is longer than 200 ms", async () => {
    const { clock, keeper } = world();
    const armed: number[] = [];
    const setTimer = clock.setTimer.bind(clock);
    const one = keeper();
    await one.acquire();
    clock.setTimer = (ms, callback) => {
      armed.push(ms);
      return setTimer(ms, callback);
    };
    await clock.advance(900);
    expect(armed.length).toBeGreaterThan(3);
    expect(Math.max(...armed)).toBeLessThanOrEqual(200);
    clock.setTimer = setTimer;
    await one.stop();
  });

  it("LK-22 time asleep counts: a lease whose deadline passed during a suspend is gone at the next entry", async () => {
    const { clock, table, keeper } = world();
    const request = requester(clock);
    const one = keeper();
    await one.acquire();
    clock.suspend(3000);
    expect((await failureOf(one.exclusive(() => request.send(1)))).code).toBe("LEASE_QUARANTINED");
    expect(request.sentAt).toEqual([]);
    expect(heads(table)).toHaveLength(1);
    await settle(clock, one.stop());
  });

  it("LK-23 a parting of clocks that nothing explains makes the lease unconfirmed until a renewal succeeded", async () => {
    const { clock, table, keeper } = world();
    const request = requester(clock);
    const one = keeper();
    await one.acquire();
    await one.whileHeld(async (held) => {
      clock.stepWall(10_000);
      expect(held.check()).toBe("unconfirmed");
      await one.exclusive(async () => {
        const before = heads(table).length;
        const sent = request.send(0);
        await clock.advance(0);
        await sent;
        expect(heads(table)).toHaveLength(before + 1);
      });
      expect(held.check()).toBe("held");
    });
    clock.stepWall(-10_000);
    await table.insertClaim({
      name: "job",
      term: 9n,
      leaseId: "00000000-0000-4000-8000-000000000001",
      holder: "rival",
      ttlMs: 3000,
    });
    const error = await failureOf(
      settle(
        clock,
        one.exclusive(() => request.send(0)),
      ),
    );
    expect(error).toMatchObject({ code: "LEASE_HELD", heldBy: "rival" });
    expect(request.sentAt).toHaveLength(1);
    await one.stop();
  });

  it("LK-27 after a loss the keeper claims under a fresh id, counts it and tells its user", async () => {
    let plan: OperationPlan | undefined;
    const { clock, keeper } = world(({ operation }) => (operation === "claim" ? plan : undefined));
    const one = keeper({ reacquire: "keep-trying" });
    const trace: string[] = [];
    one.onChange(({ from, to }) => trace.push(`${from}>${to}`));
    await one.acquire();
    const before = one.status().leaseId;
    plan = { fate: "broken" };
    await clock.advance(1000);
    plan = undefined;
    await clock.advance(3000);
    const after = one.status();
    expect(after).toMatchObject({ state: "held", reacquisitions: 1 });
    expect(after.leaseId).not.toBe(before);
    await one.release();
    await one.stop();
    expect(trace).toEqual([
      "none>held",
      "held>quarantined",
      "quarantined>reacquiring",
      "reacquiring>held",
      "held>released",
    ]);
  });
});

describe("whileHeld and exclusive", () => {
  it("LK-18 a job of three TTLs that sends nothing is held all the time, with at least 8 renewals", async () => {
    const { clock, table, keeper } = world();
    const one = keeper();
    await one.acquire();
    const answers = new Set<string>();
    const fence = await settle(
      clock,
      one.whileHeld(async (held) => {
        for (let i = 0; i < 90; i++) {
          answers.add(held.check());
          await clock.sleep(100);
        }
        expect(held.signal.aborted).toBe(false);
        return held.fence();
      }),
      20_000,
    );
    expect([...answers]).toEqual(["held"]);
    expect(one.status().renewals).toBeGreaterThanOrEqual(8);
    table.skewMs = 0;
    const wide = { ...fence, params: { ...fence.params, hf_margin_ns: "0" } };
    expect(table.admits(wide)).toBe(true);
    await one.stop();
    expect(table.admits(wide)).toBe(false);
  });

  it("LK-19 exclusive inside exclusive joins the same keeper's stretch, and is refused inside another's", async () => {
    const { clock, keeper } = world();
    const request = requester(clock);
    const [one, other] = [keeper({ name: "one" }), keeper({ name: "other" })];
    await one.acquire();
    await other.acquire();
    await one.exclusive(async (outer) => {
      await one.exclusive(async (inner) => expect(inner).toBe(outer));
      // One scope: what is left is the same within, and the stretch outside goes on when the one within has ended.
      const left = remainingMs();
      await one.exclusive(async () => expect(remainingMs()).toBe(left));
      const sent = request.send(0);
      await clock.advance(0);
      await sent;
      expect(await failureOf(other.exclusive(async () => 1))).toMatchObject({ code: "NESTED_LEASE" });
      expect(await failureOf(one.release())).toMatchObject({ code: "NESTED_LEASE" });
    });
    expect([one.status().state, other.status().state]).toEqual(["held", "held"]);
    await one.stop();
    await other.stop();
  });

  it("LK-19 a stretch that awaits something else than its requests is warned of, once and by name, when somebody listens", async () => {
    const { clock, keeper } = world(({ operation }) => ({ afterMs: operation === "claim" ? 100 : 10 }));
    const request = requester(clock);
    const warnings: string[] = [];
    const one = keeper({ onWarning: (message) => warnings.push(message) });
    await settle(clock, one.acquire());
    async function sleepy(): Promise<void> {
      await request.send(50);
      await clock.sleep(500);
    }
    await settle(clock, one.exclusive(sleepy));
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toMatch(
      /^stretch "sleepy" of lease "job" waited 20 ms or more for something that is not a request/,
    );
    await settle(
      clock,
      one.exclusive(() => clock.sleep(41), { name: "nap" }),
    );
    expect(warnings[1]).toContain('stretch "nap"');
    // Requests one after the other, in nested stretches and scopes, with a renewal on the way, are what a stretch is for.
    await settle(
      clock,
      one.exclusive(async () => {
        for (let i = 0; i < 20; i++) await request.send(30);
        await Promise.all([request.send(100), request.send(200)]);
        await one.exclusive(() => request.send(100));
        await within(1000, () => request.send(300), { clock });
      }),
    );
    expect(one.status().renewals).toBeGreaterThan(0);
    // A job that waits is no stretch.
    await settle(
      clock,
      one.whileHeld(() => clock.sleep(500)),
    );
    expect(warnings).toHaveLength(2);
    const silent = keeper({ name: "other" });
    await settle(clock, silent.acquire());
    const pending = clock.pending;
    let during = 0;
    await silent.exclusive(async () => void (during = clock.pending));
    expect(during).toBe(pending);
    await settle(clock, Promise.all([one.stop(), silent.stop()]));
    expect(clock.pending).toBe(0);
  });

  it("one that never ends has the lock until its lease is lost: then the keeper claims again, and stop() ends", async () => {
    const { clock, keeper } = world();
    const [one, two] = [keeper({ reacquire: "keep-trying" }), keeper({ name: "other" })];
    await one.acquire();
    await two.acquire();
    const before = one.status().leaseId;
    const forgotten = () => new Promise<never>(() => undefined);
    void one.exclusive(forgotten);
    void two.exclusive(forgotten);
    await clock.advance(1);
    const start = clock.now();
    await settle(clock, two.stop());
    expect(clock.now() - start).toBeLessThan(2900);
    expect(two.status()).toMatchObject({ state: "quarantined", lastLoss: { reason: "deadline-passed" } });
    await clock.advance(3000);
    expect(one.status()).toMatchObject({ state: "held", reacquisitions: 1 });
    expect(one.status().leaseId).not.toBe(before);
    // The lock is in use as ever.
    expect(await one.exclusive(({ leaseId }) => Promise.resolve(leaseId))).toBe(one.status().leaseId);
    await settle(clock, one.stop());
    expect(clock.pending).toBe(0);
  });

  it("CF-02 a warning about settings goes to the listener", () => {
    const { keeper } = world();
    const warnings: string[] = [];
    keeper({ lease: { ttlMs: 3000, publishTimeoutMs: 2500 }, onWarning: (message) => warnings.push(message) });
    expect(warnings).toEqual([expect.stringContaining("3000 - 2500 - 0 = 500")]);
  });

  it("LK-24 a caller's deadline ends the caller, never the renewal that it waits for", async () => {
    let slow = 0;
    const { clock, table, keeper } = world(({ operation }) => ({ afterMs: operation === "claim" ? slow : 0 }));
    const request = requester(clock);
    const one = keeper();
    await one.acquire();
    slow = 1000;
    clock.suspend(1000);
    const start = clock.now();
    const caller = within(200, () => one.exclusive(() => request.send(1)), { clock });
    const error = await failureOf(settle(clock, caller));
    expect(error.code).toBe("DEADLINE_EXCEEDED");
    expect(clock.now()).toBe(start + 200);
    expect(request.sentAt).toEqual([]);
    await clock.advance(900);
    expect(one.status()).toMatchObject({ state: "held", renewals: 1 });
    expect(new Set(table.rows.map((row) => row.leaseId)).size).toBe(1);
    slow = 0;
    await settle(
      clock,
      one.exclusive(async () => 1),
    );
    await one.stop();
  });

  it("LK-24 a keeper started inside a scope that is over goes on renewing, outside that scope", async () => {
    const { clock, table, keeper } = world();
    const left: number[] = [];
    const readHead = table.readHead.bind(table);
    const one = keeper();
    await within(300, () => one.acquire(), { clock });
    table.readHead = (name) => {
      left.push(remainingMs());
      return readHead(name);
    };
    await clock.advance(6000);
    expect(one.status().renewals).toBe(6);
    // Nothing but the lease deadline binds a renewal.
    expect(Math.min(...left)).toBe(1900);
    await one.stop();
  });

  it("LS-02 however the time is spread, every request of a stretch is answered by the deadline", async () => {
    const { clock, table, keeper } = world();
    const request = requester(clock);
    const one = keeper({ lease: { ttlMs: 10_000, publishTimeoutMs: 1000 } });
    await one.acquire();
    const claimed = clock.now();
    // One slow request may use nearly all of it.
    await settle(
      clock,
      one.exclusive(() => request.send(9000)),
    );
    expect(clock.now()).toBe(claimed + 9000);
    await clock.advance(0);
    const renewed = clock.now();
    expect(one.status().renewals).toBe(1);
    // Renewals get nowhere from here on, and cost nothing: five requests of 2 s do not fit into 9.9.
    table.plan = () => ({ fate: "not-sent" });
    const ends: number[] = [];
    const error = await failureOf(
      settle(
        clock,
        one.exclusive(async () => {
          for (let i = 0; i < 5; i++) await request.send(2000).finally(() => ends.push(clock.now() - renewed));
        }),
      ),
    );
    expect(ends).toEqual([2000, 4000, 6000, 8000, 9900]);
    expect(error).toMatchObject({ code: "DEADLINE_EXCEEDED", timedOut: true });
    expect(error.message).toContain("lease.ttlMs = 10000");
    table.plan = () => undefined;
    await settle(clock, one.stop());
  });

  it("LK-02 a lease that a stretch finds past its deadline is given up on the way in, one that passes it inside on the way out", async () => {
    const { clock, table, keeper } = world();
    const one = keeper();
    await one.acquire();
    clock.suspend(2901);
    expect((await failureOf(one.exclusive(async () => "used"))).code).toBe("LEASE_QUARANTINED");
    await clock.advance(3000);
    expect(await one.tryAcquire()).toBe(true);
    await one.exclusive(async () => clock.suspend(2900));
    expect(one.status().state).toBe("quarantined");
    expect(table.log.some((entry) => entry.operation === "tombstone")).toBe(false);
    await settle(clock, one.stop());
  });

  it("a statement of unknown outcome quarantines the lease at once", async () => {
    const { clock, keeper } = world();
    const request = requester(clock);
    const one = keeper();
    await one.acquire();
    const error = await failureOf(
      one.exclusive(async (stretch) => {
        stretch.quarantine(new Error("socket hang up"));
        expect(() => stretch.fence()).toThrow(/LEASE_QUARANTINED.*socket hang up/);
        await request.send(1);
      }),
    );
    expect(error.code).toBe("LEASE_LOST");
    expect(one.status()).toMatchObject({ state: "quarantined" });
    await settle(clock, one.stop());
  });
});

describe("release", () => {
  it("LS-23 writes a tombstone at the held term, and a successor's first claim holds at once", async () => {
    const { clock, table, keeper } = world();
    const request = requester(clock);
    const [one, next] = [keeper(), keeper()];
    await one.acquire();
    clock.suspend(1200);
    // Eight requests at once find the renewal due: it is made once, and the tombstone still goes to the newest term.
    await settle(
      clock,
      one.exclusive(() => Promise.all(Array.from({ length: 8 }, () => request.send(10)))),
    );
    expect(one.status()).toMatchObject({ renewals: 1 });
    await one.release();
    expect(table.rows.map((row) => row.term)).toEqual([1n, 2n, 2n]);
    expect(table.rows.at(-1)!.expiresAtNs).toBe(table.rows.at(-1)!.acquiredAtNs);
    expect(await next.tryAcquire()).toBe(true);
    await one.stop();
    await next.stop();
  });

  it("waits for the jobs under the lease, renewing meanwhile, and tells them first", async () => {
    const { clock, table, keeper } = world();
    const one = keeper();
    await one.acquire();
    const job = one.whileHeld(async (held) => {
      await new Promise<void>((resolve) => held.signal.addEventListener("abort", () => resolve()));
      await clock.sleep(2500);
      return held.check();
    });
    const stopped = one.stop();
    await clock.advance(2499);
    expect(table.log.some((entry) => entry.operation === "tombstone")).toBe(false);
    expect(one.status()).toMatchObject({ state: "held", renewals: 2 });
    await settle(clock, stopped);
    expect(await job).toBe("lost");
    expect(one.status().state).toBe("released");
    expect(table.log.at(-1)!.operation).toBe("tombstone");
  });

  it("called again while it waits for the jobs, waits for them as well", async () => {
    const { clock, table, keeper } = world();
    const one = keeper();
    await one.acquire();
    void one.whileHeld(() => clock.sleep(2000));
    const [first, second] = [one.release(), one.stop()];
    await clock.advance(1999);
    expect(one.status()).toMatchObject({ state: "held", lastError: null });
    await settle(clock, Promise.all([first, second]));
    expect(one.status()).toMatchObject({ state: "released", lastError: null });
    expect(table.log.filter((entry) => entry.operation === "tombstone")).toHaveLength(1);
  });

  it.each(["its own", "another keeper's"])("inside a job in %s job waits for neither", async (whose) => {
    const { clock, table, keeper } = world();
    const [one, other] = [keeper(), keeper({ name: "other" })];
    await one.acquire();
    await other.acquire();
    const inner = whose === "its own" ? one : other;
    const start = clock.now();
    await settle(
      clock,
      one.whileHeld(() => inner.whileHeld(() => one.release())),
    );
    expect(clock.now()).toBe(start);
    expect(table.log.map(({ operation }) => operation).filter((what) => what === "tombstone")).toHaveLength(1);
    expect(one.status()).toMatchObject({ state: "released", lastError: null });
    await settle(clock, Promise.all([one.stop(), other.stop()]));
  });

  it("leaves the lease to expire when a job does not end within a TTL of being told", async () => {
    const { clock, table, keeper } = world();
    const one = keeper();
    await one.acquire();
    void one.whileHeld(() => clock.sleep(60_000));
    const start = clock.now();
    await settle(clock, one.stop());
    expect(clock.now()).toBe(start + 3000);
    expect(table.log.some((entry) => entry.operation === "tombstone")).toBe(false);
    expect(one.status().lastError).toMatch(/did not end within lease.ttlMs/);
    await clock.advance(60_000);
    expect(clock.pending).toBe(0);
  });

  it("stop() is idempotent, leaves no timer, and a stopped keeper refuses", async () => {
    const { clock, table, keeper } = world();
    const one = keeper();
    await one.acquire();
    await Promise.all([one.stop(), one.stop(), one[Symbol.asyncDispose]()]);
    expect(table.log.filter((entry) => entry.operation === "tombstone")).toHaveLength(1);
    expect(clock.pending).toBe(0);
    expect((await failureOf(one.acquire())).code).toBe("LEASE_LOST");
  });

  it("a keeper that is stopped while it waits for the lease, or for its turn, never claims it afterwards", async () => {
    const { clock, table, keeper } = world();
    const [holder, one, two] = [keeper(), keeper({ holder: "one" }), keeper({ holder: "two" })];
    await holder.acquire();
    const waiting = failureOf(one.acquire({ waitMs: 60_000 }));
    await clock.advance(200);
    await one.stop();
    expect(await waiting).toMatchObject({ code: "LEASE_LOST" });
    await holder.stop();
    const trying = [two.tryAcquire(), two.stop(), failureOf(two.acquire())] as const;
    const [tried, , refused] = await settle(clock, Promise.all(trying));
    expect(tried).toBe(false);
    expect(refused).toMatchObject({ code: "LEASE_LOST" });
    await clock.advance(10_000);
    expect([one.status().state, two.status().state]).toEqual(["none", "none"]);
    expect(table.rows.filter((row) => row.holder === "one" || row.holder === "two")).toEqual([]);
    expect(clock.pending).toBe(0);
  });

  it("LK-20 is not shown as held from when its tombstone leaves: a successor may hold from when it has landed", async () => {
    const { clock, keeper } = world(({ operation }) => (operation === "tombstone" ? { afterMs: 500 } : undefined));
    const [one, two] = [keeper(), keeper()];
    await one.acquire();
    const lost: string[] = [];
    one.onLost(({ reason }) => lost.push(reason));
    const released = one.release();
    await clock.advance(100);
    expect(await two.tryAcquire()).toBe(true);
    expect([one.status().state, two.status().state]).toEqual(["released", "held"]);
    expect(lost).toEqual(["released"]);
    // Nor does it claim before that tombstone is answered.
    const again = failureOf(one.acquire({ waitMs: 0 }));
    await settle(clock, released);
    expect(await again).toMatchObject({ code: "LEASE_HELD", heldBy: two.holder });
    await settle(clock, Promise.all([one.stop(), two.stop()]));
  });

  it("a tombstone that fails leaves the row to expire and says so", async () => {
    const { table, keeper, clock } = world(({ operation }) =>
      operation === "tombstone" ? { fate: "broken" } : undefined,
    );
    const one = keeper();
    await one.acquire();
    await settle(clock, one.release());
    expect(one.status()).toMatchObject({ state: "released" });
    expect(one.status().lastError).toMatch(/release could not be written/);
    expect(table.head("job").leases).toHaveLength(1);
    await one.stop();
  });
});
