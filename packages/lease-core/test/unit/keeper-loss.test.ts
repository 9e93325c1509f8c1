/**
 * Goal: every end of a lease is told once, with its reason, in every place that tells it. Method: the real keeper on the simulated table
 * and the virtual clock; one way to lose a lease after the other.
 */
import { describe, expect, it } from "vitest";
import type { Held, LeaseKeeper, LeaseLoss, LossReason } from "../../src/index.js";
import type { OperationPlan } from "../../src/testing/index.js";
import { failureOf, requester, settle, world, type World } from "../support/keepers.js";

const rivalId = "00000000-0000-4000-8000-000000000001";
const rivalClaims = ({ table }: World, leaseId = rivalId, term = table.head("job").term + 1n) =>
  table.insertClaim({ name: "job", term, leaseId, holder: "rival", ttlMs: 3000 });
const plan = (place: World, which: string, fate: OperationPlan["fate"]) => {
  place.table.plan = ({ operation }) => (operation === which && fate !== undefined ? { fate } : undefined);
};

type Lose = (place: World, one: LeaseKeeper) => Promise<unknown>;
const ways: readonly (readonly [what: string, reason: LossReason, lose: Lose])[] = [
  [
    "a renewal that nobody answers",
    "renewal-timed-out",
    async (place) => (plan(place, "claim", "unanswered"), place.clock.advance(2900)),
  ],
  [
    "a renewal ended by a limit at the server",
    "renewal-timed-out",
    async (place) => (plan(place, "claim", "limited"), place.clock.advance(1000)),
  ],
  [
    "a catalog that cannot be reached until the deadline",
    "deadline-passed",
    async (place) => (plan(place, "head", "not-sent"), place.clock.advance(2900)),
  ],
  [
    "a suspend across the deadline",
    "suspended",
    async (place) => (place.clock.suspend(3000), place.clock.advance(200)),
  ],
  [
    "clocks that parted, and no renewal that confirms the lease",
    "unconfirmed",
    async (place) => {
      place.clock.stepWall(10_000);
      plan(place, "head", "not-sent");
      await place.clock.advance(2900);
    },
  ],
  [
    "another holder at the head",
    "taken-over",
    async (place) => {
      await rivalClaims(place);
      await place.clock.advance(1000);
    },
  ],
  [
    "a term that is contested",
    "refused",
    async (place) => {
      await rivalClaims(place, place.table.rows[0]!.leaseId);
      await rivalClaims(place, rivalId, 2n);
      await place.clock.advance(1000);
    },
  ],
  [
    "a renewal that left no row",
    "refused",
    async (place) => (plan(place, "claim", "dropped"), place.clock.advance(1000)),
  ],
  [
    "a statement of unknown outcome under it",
    "outcome-unknown",
    (_place, one) => one.exclusive(async (stretch) => stretch.quarantine(new Error("socket hang up"))),
  ],
  [
    "a renewal whose connection broke",
    "outcome-unknown",
    async (place) => (plan(place, "claim", "broken"), place.clock.advance(1000)),
  ],
  ["a release", "released", (_place, one) => one.release()],
];

describe("LK-27 LK-20 the end of a lease says why", () => {
  it.each(ways)("%s: %s", async (_what, reason, lose) => {
    const place = world();
    const one = place.keeper();
    await one.acquire();
    const { leaseId, term } = one.status();
    const told: LeaseLoss[] = [];
    one.onLost((loss) => told.push(loss));
    const job = one.whileHeld(
      (held) =>
        new Promise<[unknown, string]>((resolve) => {
          const end = () => resolve([(held.signal.reason as { reason: unknown }).reason, held.check()]);
          held.signal.addEventListener("abort", end, { once: true });
        }),
    );
    await lose(place, one);
    expect(await job).toEqual([reason, "lost"]);
    await place.clock.advance(0);
    expect(told).toMatchObject([{ leaseId, term, reason }]);
    const { lastLoss, state } = one.status();
    expect(state).not.toBe("held");
    expect(lastLoss).toEqual(told[0]);
    expect(await failureOf(one.exclusive(async () => undefined))).toMatchObject({ reason });
    place.table.plan = () => undefined;
    await settle(place.clock, one.stop());
    expect(told).toHaveLength(1);
    expect(JSON.parse(JSON.stringify(one.status()))).toEqual(one.status());
  });

  it.each(["onLost", "onChange", "signal"])(
    "a listener of %s may claim again, whoever noticed the loss",
    async (what) => {
      const { clock, keeper } = world();
      const one = keeper();
      await one.acquire();
      const tried: Promise<void>[] = [];
      const again = () => {
        if (tried.length === 0) tried.push(one.acquire({ waitMs: 10_000 }));
      };
      if (what === "onLost") one.onLost(again);
      else if (what === "onChange") one.onChange(again);
      else {
        await one.whileHeld(async (held) => {
          held.signal.addEventListener("abort", again);
        });
      }
      // Noticed inside a stretch, in which acquire() is refused.
      await one.exclusive(async (stretch) => {
        stretch.quarantine(new Error("no answer"));
      });
      expect(tried).toHaveLength(1);
      await settle(clock, Promise.all(tried));
      expect(one.status().state).toBe("held");
      await settle(clock, one.stop());
    },
  );

  it("a listener that throws is noted and harms nobody", async () => {
    const { keeper } = world();
    const one = keeper();
    await one.acquire();
    const told: string[] = [];
    one.onLost(() => {
      throw new Error("listener's own fault");
    });
    const off = one.onLost(({ reason }) => told.push(reason));
    await one.release();
    expect(told).toEqual(["released"]);
    expect(one.status().lastError).toMatch(/onLost threw: listener's own fault/);
    off();
    await one.acquire();
    await one.stop();
    expect(told).toHaveLength(1);
  });
});

describe("a parting of clocks", () => {
  it("LK-23 a job is not cut off by it: unconfirmed until the renewal that is due at once has succeeded", async () => {
    const { clock, table, keeper } = world(({ operation }) => ({ afterMs: operation === "claim" ? 100 : 0 }));
    const one = keeper();
    await settle(clock, one.acquire());
    await one.whileHeld(async (held) => {
      clock.stepWall(-10_000);
      expect(held.check()).toBe("unconfirmed");
      const before = table.log.length;
      await clock.advance(0);
      // Nobody asked for anything: the keeper itself renews.
      expect(table.log.length).toBeGreaterThan(before);
      expect(held.check()).toBe("unconfirmed");
      await clock.advance(100);
      expect(held.check()).toBe("held");
      expect(held.signal.aborted).toBe(false);
    });
    await settle(clock, one.stop());
  });

  it("LK-23 one that happens while a claim is under way leaves the claim unconfirmed", async () => {
    const { clock, keeper } = world(({ operation }) => ({ afterMs: operation === "claim" ? 100 : 0 }));
    const one = keeper();
    const acquired = one.acquire();
    await clock.advance(50);
    clock.stepWall(10_000);
    await clock.advance(50);
    await acquired;
    await one.whileHeld(async (held) => {
      expect(held.check()).toBe("unconfirmed");
      await clock.advance(100);
      expect(held.check()).toBe("held");
    });
    await settle(clock, one.stop());
  });
});

describe("while a lease is being given back", () => {
  it("acquire() waits for the release and claims afresh, and does not report what is going", async () => {
    const { clock, keeper } = world();
    const one = keeper();
    await one.acquire();
    const before = one.status().leaseId;
    void one.whileHeld(() => clock.sleep(1000));
    const released = one.release();
    const acquired = one.acquire();
    const tried = one.tryAcquire();
    expect(await failureOf(one.acquire({ waitMs: 0 }))).toMatchObject({ code: "LEASE_LOST", reason: "released" });
    expect(await tried).toBe(false);
    await clock.advance(999);
    expect(one.status().leaseId).toBe(before);
    await settle(clock, Promise.all([released, acquired]));
    expect(one.status().state).toBe("held");
    expect(one.status().leaseId).not.toBe(before);
    await settle(clock, one.stop());
  });

  it("release() that comes while a claim is under way gives back what that claim takes, its jobs told and waited for", async () => {
    const { clock, table, keeper } = world(({ operation }) => ({ afterMs: operation === "claim" ? 100 : 0 }));
    const one = keeper();
    let told = 0;
    // Begun in the very turn in which it holds: the release must not find the lease free of jobs.
    one.onChange(({ to }) => {
      if (to !== "held") return;
      void one.whileHeld(async (held) => {
        held.signal.addEventListener("abort", () => (told = clock.now()));
        await clock.sleep(500);
      });
    });
    const acquired = one.acquire();
    await clock.advance(50);
    await settle(clock, Promise.all([one.release(), acquired]));
    expect(told).toBe(1100);
    const tombstones = table.log.filter(({ operation }) => operation === "tombstone");
    expect(tombstones.map(({ sentAt }) => sentAt)).toEqual([1600]);
    expect(one.status()).toMatchObject({ state: "released", lastError: null });
    await settle(clock, one.stop());
  });

  it("one that is lost then is not sought again, though a lost lease else is: stop() ends with the wait for its jobs", async () => {
    const { clock, table, keeper } = world(({ operation, sentAt }) =>
      operation === "claim" && sentAt > 1000 && sentAt < 2500 ? { fate: "dropped" } : undefined,
    );
    const one = keeper({ reacquire: "keep-trying" });
    await one.acquire();
    void one.whileHeld(() => clock.sleep(60_000));
    await clock.advance(900);
    const start = clock.now();
    const stopped = one.stop();
    await clock.advance(200);
    expect(one.status()).toMatchObject({ state: "released", lastLoss: { reason: "refused" } });
    await settle(clock, stopped);
    expect(clock.now()).toBe(start + 3000);
    expect(new Set(table.rows.map(({ leaseId }) => leaseId)).size).toBe(1);
    expect(one.status()).toMatchObject({ state: "released", reacquisitions: 0 });
    await clock.advance(60_000);
    expect(clock.pending).toBe(0);
  });
});

describe("a lease that is dropped while its renewal is under way", () => {
  /** Held, and its first renewal under way. */
  async function renewing(place: World): Promise<{ one: LeaseKeeper; held: Held }> {
    const one = place.keeper({ reacquire: "keep-trying" });
    await one.acquire();
    let held: Held | null = null;
    void one.whileHeld((given) => {
      held = given;
      return new Promise((resolve) => given.signal.addEventListener("abort", resolve));
    });
    await place.clock.advance(1100);
    return { one, held: held! };
  }
  const claims = ({ table }: World) => table.log.filter(({ operation }) => operation === "claim");

  it("LS-25 during its head read: no row of it is written any more, and a fresh id follows the quarantine", async () => {
    const place = world(({ operation, sentAt }) =>
      operation === "head" && sentAt > 1500 ? { afterMs: 300 } : undefined,
    );
    const { one, held } = await renewing(place);
    held.quarantine(new Error("no answer"));
    const droppedAt = place.clock.now();
    await place.clock.advance(2999);
    expect(claims(place)).toHaveLength(1);
    expect(one.status()).toMatchObject({ state: "quarantined", quarantinedUntilMs: droppedAt + 3000 });
    await place.clock.advance(500);
    expect(one.status()).toMatchObject({ state: "held", reacquisitions: 1 });
    expect(claims(place)[1]!.leaseId).not.toBe(held.leaseId);
    await settle(place.clock, one.stop());
  });

  it.each([
    ["confirmed", { afterMs: 400 }, 1400],
    ["unanswered", { fate: "unanswered" }, 2900],
  ] as const)("LS-25 after its INSERT was sent, %s: the quarantine counts from its end", async (_, plan, endsAfter) => {
    const place = world(({ operation, sentAt }) => (operation === "claim" && sentAt === 2000 ? plan : undefined));
    const { one, held } = await renewing(place);
    held.quarantine(new Error("no answer"));
    await place.clock.advance(2900);
    const until = one.status().quarantinedUntilMs!;
    // The lease was claimed at 1000.
    expect(until).toBe(1000 + endsAfter + 3000);
    await place.clock.advance(until - 1 - place.clock.now());
    expect(claims(place)).toHaveLength(2);
    expect(one.status().state).toBe("quarantined");
    // Its own late row is over by then, and refuses nobody.
    await place.clock.advance(10);
    expect(one.status().state).toBe("held");
    await settle(place.clock, one.stop());
  });
});

describe("a process set aside for moments", () => {
  it.each([1, 2, 3, 4, 5, 6, 7, 8])(
    "LS-25 at its %i. look at the clock, across the deadline: a due renewal never goes on as a first claim",
    async (look) => {
      const { clock, table, keeper } = world();
      const one = keeper({ reacquire: "keep-trying" });
      await one.acquire();
      const deadline = clock.now() + 2900;
      // Unreachable until just before the deadline; clocks that part there make a renewal due.
      table.plan = ({ operation }) => (operation === "head" ? { fate: "not-sent" } : undefined);
      await clock.advance(2899);
      table.plan = () => undefined;
      clock.stepWall(10_000);
      // A server that is ahead shows the row expired, so that a first claim would find the lease free.
      table.skewMs = 200;
      const before = table.log.length;
      let looks = 0;
      const recheck = clock.recheck.bind(clock);
      clock.recheck = () => {
        looks += 1;
        if (looks === look) clock.suspend(1);
        return recheck();
      };
      const renewed = failureOf(
        one.exclusive(() => requester(clock).send(1)).then(() => Promise.reject(new Error("went through"))),
      );
      await clock.advance(1);
      expect((await renewed).code).toMatch(/^LEASE_(LOST|QUARANTINED)$|^DEADLINE_EXCEEDED$/);
      expect(clock.now()).toBeGreaterThanOrEqual(deadline);
      expect(one.status().state).toBe("quarantined");
      // A renewal may have begun; what is sent after the deadline of its lease is no claim under a fresh id.
      const [held] = table.rows;
      const later = table.log.slice(before).filter(({ operation }) => operation === "claim");
      expect(later.filter(({ leaseId }) => leaseId !== held!.leaseId)).toEqual([]);
      clock.recheck = recheck;
      await settle(clock, one.stop());
    },
  );
});

describe("a release that comes late", () => {
  it("LS-23 LS-25 leaves whoever took over in place, also under the same holder name: nothing is written, and a third is told the name", async () => {
    const place = world();
    const [first, second, third] = [
      place.keeper({ holder: "pod" }),
      place.keeper({ holder: "pod" }),
      place.keeper({ holder: "third" }),
    ];
    await first.acquire();
    place.clock.suspend(3100);
    expect(await second.tryAcquire()).toBe(true);
    const rows = [...place.table.rows];
    await first.release();
    expect(place.table.rows).toEqual(rows);
    expect(await failureOf(third.acquire({ waitMs: 0 }))).toMatchObject({ code: "LEASE_HELD", heldBy: "pod" });
    await place.clock.advance(3000);
    expect(second.status()).toMatchObject({ state: "held" });
    expect(second.status().renewals).toBeGreaterThan(1);
    await settle(place.clock, Promise.all([first.stop(), second.stop(), third.stop()]));
  });

  it("LS-23 a tombstone that lands after the takeover ends nothing but its own holding", async () => {
    const place = world();
    const [first, second] = [place.keeper(), place.keeper()];
    await first.acquire();
    // Sent in time, and held up on its way for longer than the row stands.
    place.table.plan = ({ operation }) => (operation === "tombstone" ? { beforeMs: 5000 } : undefined);
    const released = first.release();
    await place.clock.advance(3000);
    expect(await second.tryAcquire()).toBe(true);
    await settle(place.clock, released);
    await place.clock.advance(3000);
    expect(place.table.rows.some((row) => row.expiresAtNs === row.acquiredAtNs)).toBe(true);
    expect(second.status()).toMatchObject({ state: "held", leaseTimeouts: 0 });
    place.table.plan = () => undefined;
    await settle(place.clock, Promise.all([first.stop(), second.stop()]));
  });

  it("LS-17 a rival with a shorter TTL waits for the expiry of the row, not for its own", async () => {
    const place = world();
    const first = place.keeper();
    await first.acquire();
    const rival = place.keeper({ lease: { ttlMs: 1000, publishTimeoutMs: 300 } });
    const claimed = place.table.rows[0]!;
    place.clock.suspend(2999);
    expect(await rival.tryAcquire()).toBe(false);
    place.clock.suspend(500);
    expect(await rival.tryAcquire()).toBe(true);
    expect(place.table.rows.at(-1)!.acquiredAtNs).toBeGreaterThanOrEqual(claimed.expiresAtNs);
    await settle(place.clock, Promise.all([first.stop(), rival.stop()]));
  });
});

describe("refusals that are nobody's", () => {
  it("LK-16 claims that leave no row never latch, and restart the clock of refusals", async () => {
    const place = world();
    const one = place.keeper({ reacquire: "latch" });
    await one.acquire();
    plan(place, "claim", "dropped");
    await place.clock.advance(12_000);
    expect(one.status()).toMatchObject({ state: "reacquiring" });
    expect(one.status().lastError).toMatch(/CLAIM_NOT_RECORDED/);
    // Nobody refused it, so nobody is named.
    expect(one.status()).not.toHaveProperty("heldBy");
    place.table.plan = () => undefined;
    await place.clock.advance(4000);
    expect(one.status().state).toBe("held");
    await settle(place.clock, one.stop());
  });

  it("LK-06 a statement of a job that ended by its bound, and so cost the lease, counts once", async () => {
    const place = world();
    const request = requester(place.clock);
    const one = place.keeper();
    await one.acquire();
    const cause = Object.assign(new Error("too slow"), { timedOut: true, outcome: "unknown" });
    await one.whileHeld(async (held) => held.quarantine(cause));
    expect(one.status()).toMatchObject({ state: "quarantined", leaseTimeouts: 1 });
    expect(request.sentAt).toEqual([]);
    await settle(place.clock, one.stop());
  });
});
