/**
 * Goal: the lease protocol by itself, statement by statement. Method: LeaseCoordinator on the simulated table and the virtual clock, so
 * every instant is exact and every fate of a statement can be chosen.
 */
import { describe, expect, it } from "vitest";
import type { ClaimResult, HeldLease } from "../../src/index.js";
import { settle, world } from "../support/keepers.js";

function held(result: ClaimResult): HeldLease {
  if (result.result !== "held") throw new Error(`expected held, got ${JSON.stringify(result.result)}`);
  return result.lease;
}

describe("deadline", () => {
  it("LS-01 the deadline counts from just before the INSERT is handed over, for a claim and for a renewal", async () => {
    const { clock, table, coordinator } = world(({ operation }) => ({
      afterMs: operation === "head" ? 700 : operation === "claim" ? 900 : 0,
    }));
    const holder = coordinator("a", { lease: { ttlMs: 15_000, clockSkewMs: 400 }, requestTimeoutMs: 60_000 });
    const first = held(await settle(clock, holder.claim(null)));
    const sent = () => table.log.filter((entry) => entry.operation === "claim").at(-1)!.sentAt;
    expect(sent()).toBe(1000 + 700);
    expect(first.deadline).toBe(sent() + 14_500);
    await clock.advance(5000);
    const second = held(await settle(clock, holder.claim(first)));
    expect(sent()).toBe(1000 + 700 + 900 + 5000 + 700);
    expect(second.deadline).toBe(sent() + 14_500);
    expect(second.leaseId).toBe(first.leaseId);
  });

  it("LS-02 under a lease one slow request may use all of the time left, and the ones after it end at the deadline", async () => {
    let slow = 0;
    const { clock, coordinator } = world(({ operation }) => ({ afterMs: operation === "head" ? slow : 0 }));
    const holder = coordinator("a", { lease: { ttlMs: 10_000, publishTimeoutMs: 1000 } });
    const lease = held(await settle(clock, holder.claim(null)));
    slow = 9000;
    const renewed = held(await settle(clock, holder.claim(lease)));
    slow = 9901;
    const late = await settle(clock, holder.claim(renewed));
    expect(late).toMatchObject({ result: "failed", timedOut: true, insert: "not-sent" });
    expect(clock.now()).toBe(renewed.deadline);
  });

  it.each([
    [1000, 20_000],
    [600, 600],
  ])(
    "LS-03 without a lease each request has the claim bound of %i ms (request timeout %i)",
    async (bound, requestTimeoutMs) => {
      for (const stalled of ["head", "claim", "term"] as const) {
        const { clock, coordinator, table } = world(({ operation }) =>
          operation === stalled ? { fate: "unanswered" } : { afterMs: 200 },
        );
        const lease = { ttlMs: 3000, publishTimeoutMs: 300 };
        const result = await settle(clock, coordinator("a", { lease, requestTimeoutMs }).claim(null));
        expect(result).toMatchObject({
          result: "failed",
          timedOut: true,
          insert: stalled === "head" ? "not-sent" : "unknown",
        });
        expect(clock.now()).toBe(table.log.at(-1)!.sentAt + bound);
        expect(table.log.at(-1)!.operation).toBe(stalled);
      }
    },
  );

  it("LS-04 a claim under a lease past its deadline is still sent, so that the table decides it", async () => {
    const { clock, coordinator, table } = world();
    const [a, b] = [coordinator("a"), coordinator("b")];
    const lease = held(await a.claim(null));
    await clock.advance(3001);
    held(await b.claim(null));
    const renewal = await a.claim(lease);
    expect(renewal.result).toBe("refused");
    expect(renewal).toMatchObject({ error: { code: "LEASE_HELD", heldBy: "b" } });
    expect(table.admits(table.fence({ name: "job", leaseId: lease.leaseId, term: lease.term }))).toBe(false);
  });

  it.each(["read-back", "contested row", "head after a claim that is not there"] as const)(
    "LS-13 from its INSERT on a claim is bound by the deadline of the lease it would take (slow: INSERT and %s)",
    async (slow) => {
      // 950 ms each is inside the claim bound of 1000; two of them do not fit into the 1700 ms that the lease would have.
      let inserted = false;
      const { clock, coordinator, table } = world(({ operation }) => {
        if (operation === "claim") inserted = true;
        if (operation === "claim")
          return { afterMs: 950, fate: slow === "head after a claim that is not there" ? "dropped" : "answered" };
        const late = operation === "term" ? slow === "read-back" : inserted && slow !== "read-back";
        return { afterMs: late ? 950 : 0 };
      });
      if (slow === "contested row") {
        const readTerm = table.readTerm.bind(table);
        table.readTerm = async (name, term) => {
          table.rows.push({ ...table.rows.at(-1)!, leaseId: "00000000-0000-4000-8000-000000000001", holder: "rival" });
          return readTerm(name, term);
        };
      }
      const lease = { ttlMs: 3000, clockSkewMs: 1200, publishTimeoutMs: 1000 };
      const result = await settle(clock, coordinator("a", { lease }).claim(null));
      const sent = table.log.find((entry) => entry.operation === "claim")!.sentAt;
      expect(result).toMatchObject({ result: "failed", timedOut: true, insert: "unknown" });
      expect(clock.now()).toBe(sent + 1700);
    },
  );

  it("LS-13 on a renewal the held lease's earlier deadline binds", async () => {
    let slow = 0;
    const { clock, coordinator } = world(({ operation }) => ({ afterMs: operation === "claim" ? slow : 0 }));
    const holder = coordinator("a");
    const lease = held(await holder.claim(null));
    await clock.advance(lease.deadline - clock.now() - 1200);
    slow = 1300;
    expect(await settle(clock, holder.claim(lease))).toMatchObject({
      result: "failed",
      timedOut: true,
      insert: "unknown",
    });
    expect(clock.now()).toBe(lease.deadline);
  });

  it("LS-27 a confirmation that is seen after the deadline is a timeout of unknown outcome, a refusal stays a refusal", async () => {
    // The reply comes in time, but this process sees it late: the clock moves while nothing runs.
    const { clock, coordinator, table } = world();
    const readTerm = table.readTerm.bind(table);
    table.readTerm = async (name, term) => {
      const rows = await readTerm(name, term);
      clock.suspend(3000);
      return rows;
    };
    const a = coordinator("a");
    expect(await a.claim(null)).toMatchObject({ result: "failed", timedOut: true, insert: "unknown" });
    const readHead = table.readHead.bind(table);
    const b = coordinator("b");
    table.readTerm = readTerm;
    await clock.advance(3000);
    held(await a.claim(null));
    table.readHead = async (name) => {
      const head = await readHead(name);
      clock.suspend(30_000);
      return head;
    };
    expect(await b.claim(null)).toMatchObject({ result: "refused", error: { code: "LEASE_HELD", heldBy: "a" } });
  });
});

describe("who holds", () => {
  it("LS-17 the head is the newest term, a lease expires by its least row, an empty table is term 0, a renewal is head + 1", async () => {
    const { clock, coordinator, table } = world();
    const [a, b] = [coordinator("a"), coordinator("b")];
    expect(table.head("job")).toMatchObject({ term: 0n, leases: [] });
    const first = held(await a.claim(null));
    expect(first.term).toBe(1n);
    const second = held(await a.claim(first));
    expect([second.term, second.leaseId]).toEqual([2n, first.leaseId]);
    // A repeated row with a later expiry does not prolong the lease; a tombstone ends it.
    const row = table.rows.at(-1)!;
    table.rows.push({ ...row, expiresAtNs: row.expiresAtNs + 60_000_000_000n });
    expect((await b.claim(null)).result).toBe("refused");
    await a.release(second);
    const successor = held(await b.claim(null));
    expect(successor.term).toBe(3n);
    await clock.advance(3001);
    expect(held(await a.claim(null)).term).toBe(4n);
  });

  it("LS-19 two claims at one term both give up, and the contested head cannot be claimed before its latest expiry", async () => {
    const { clock, coordinator, table } = world(({ operation }) => ({ afterMs: operation === "claim" ? 50 : 0 }));
    const holders = ["a", "b", "c"].map((name) => coordinator(name));
    const [a, b, c] = holders as [(typeof holders)[0], (typeof holders)[0], (typeof holders)[0]];
    const results = await settle(clock, Promise.all([a.claim(null), b.claim(null)]));
    for (const result of results) {
      expect(result).toMatchObject({
        result: "refused",
        contested: true,
        error: { code: "LEASE_HELD", contested: true },
      });
      if (result.result === "refused")
        expect(result.error.message).toMatch(/contested at term 1 by 2 claimants.*for another 29\d\d ms/);
    }
    const expires = table.rows.reduce((latest, row) => (row.expiresAtNs > latest ? row.expiresAtNs : latest), 0n);
    const leftMs = Number((expires - table.nowNs()) / 1_000_000n);
    await clock.advance(leftMs - 1);
    expect((await settle(clock, c.claim(null))).result).toBe("refused");
    await clock.advance(1);
    expect(held(await settle(clock, c.claim(null))).term).toBe(2n);
  });

  it("LS-20 a claim that was answered but is not there is a known loss: a live winner is named, else CLAIM_NOT_RECORDED", async () => {
    let drop = false;
    const { coordinator, table } = world(({ operation }) =>
      operation === "claim" && drop ? { fate: "dropped" } : undefined,
    );
    const a = coordinator("a");
    drop = true;
    expect(await a.claim(null)).toMatchObject({ result: "refused", error: { code: "CLAIM_NOT_RECORDED" } });
    // With a rival that landed at the same moment.
    const insertClaim = table.insertClaim.bind(table);
    table.insertClaim = async (row) => {
      await insertClaim(row);
      drop = false;
      await insertClaim({ ...row, leaseId: "00000000-0000-4000-8000-000000000001", holder: "rival" });
    };
    expect(await a.claim(null)).toMatchObject({ result: "refused", error: { code: "LEASE_HELD", heldBy: "rival" } });
  });

  it("LS-20 a renewal that was answered but is not there loses the lease likewise", async () => {
    let drop = false;
    const { coordinator } = world(({ operation }) => (operation === "claim" && drop ? { fate: "dropped" } : undefined));
    const a = coordinator("a");
    const lease = held(await a.claim(null));
    drop = true;
    expect(await a.claim(lease)).toMatchObject({ result: "refused", error: { code: "CLAIM_NOT_RECORDED" } });
    // Until it expires our own older row refuses us, and it is no rival.
    expect(await a.claim(null)).toMatchObject({ result: "refused", ownClaims: true });
  });

  it("a renewal does not bridge a rival's holding, even one that has ended", async () => {
    const { clock, coordinator } = world();
    const [a, b] = [coordinator("a"), coordinator("b")];
    const lease = held(await a.claim(null));
    await clock.advance(3001);
    await b.release(held(await b.claim(null)));
    expect(await a.claim(lease)).toMatchObject({
      result: "refused",
      error: { code: "LEASE_LOST", reason: "taken-over", heldBy: "b" },
    });
  });

  it("a head read that is older than what was seen is no ground for a claim", async () => {
    const { coordinator, table } = world();
    const a = coordinator("a");
    const first = held(await a.claim(null));
    await a.release(held(await a.claim(first)));
    table.rows.pop();
    table.rows.pop();
    expect(await a.claim(null)).toMatchObject({ result: "failed", timedOut: false, insert: "not-sent" });
  });
});

describe("own claims", () => {
  it("LS-15 an earlier late claim is still known after 20 renewals of another lease", async () => {
    let late = false;
    const { clock, coordinator, table } = world(({ operation }) =>
      operation === "claim" && late ? { fate: "undelivered" } : undefined,
    );
    const a = coordinator("a");
    late = true;
    await settle(clock, a.claim(null));
    const lateId = table.log.at(-1)!.leaseId!;
    late = false;
    let lease = held(await a.claim(null));
    for (let i = 0; i < 20; i++) lease = held(await a.claim(lease));
    await a.release(lease);
    await table.insertClaim({ name: "job", term: lease.term + 1n, leaseId: lateId, holder: "a", ttlMs: 3000 });
    expect(await a.claim(null)).toMatchObject({ result: "refused", ownClaims: true });
  });

  it("LS-15 of 17 different ids the oldest is forgotten", async () => {
    const { clock, coordinator, table } = world(({ operation }) =>
      operation === "claim" ? { fate: "undelivered" } : undefined,
    );
    const a = coordinator("a");
    for (let i = 0; i < 17; i++) await settle(clock, a.claim(null));
    const ids = table.log.filter((entry) => entry.operation === "claim").map((entry) => entry.leaseId!);
    expect(new Set(ids).size).toBe(17);
    table.plan = () => undefined;
    const refusedBy = async (leaseId: string, term: bigint) => {
      await table.insertClaim({ name: "job", term, leaseId, holder: "a", ttlMs: 3000 });
      return a.claim(null);
    };
    expect(await refusedBy(ids[1]!, 1n)).toMatchObject({ result: "refused", ownClaims: true });
    expect(await refusedBy(ids[0]!, 2n)).toMatchObject({ result: "refused", ownClaims: false });
  });

  it("LS-16 only a head made of nothing but our own late claims is ours", async () => {
    let late = false;
    const { clock, coordinator, table } = world(({ operation }) =>
      operation === "claim" && late ? { fate: "unanswered" } : undefined,
    );
    const [a, b] = [coordinator("a"), coordinator("b")];
    late = true;
    await settle(clock, a.claim(null));
    late = false;
    const rowsBefore = table.rows.length;
    expect(await a.claim(null)).toMatchObject({ result: "refused", ownClaims: true });
    expect(await b.claim(null)).toMatchObject({ result: "refused", ownClaims: false });
    await table.insertClaim({
      name: "job",
      term: 1n,
      leaseId: "ffffffff-ffff-4fff-bfff-ffffffffffff",
      holder: "c",
      ttlMs: 3000,
    });
    expect(await a.claim(null)).toMatchObject({ result: "refused", ownClaims: false, contested: true });
    // Nothing of ours was added while the late row stood.
    expect(table.rows.length).toBe(rowsBefore + 1);
  });

  it("a claim that provably was not sent, or was refused before execution, is not remembered", async () => {
    for (const fate of ["not-sent", "refused"] as const) {
      let failing = true;
      const { coordinator, table } = world(({ operation }) =>
        operation === "claim" && failing ? { fate } : undefined,
      );
      const a = coordinator("a");
      expect(await a.claim(null)).toMatchObject({ result: "failed", insert: fate, timedOut: false });
      failing = false;
      const leaseId = table.log.findLast((entry) => entry.operation === "claim")!.leaseId!;
      await table.insertClaim({ name: "job", term: 1n, leaseId, holder: "b", ttlMs: 3000 });
      expect(await a.claim(null)).toMatchObject({ result: "refused", ownClaims: false });
    }
  });

  it("lease ids are version 4 UUIDs made of the injected numbers", async () => {
    const first = async () => {
      const { table, coordinator } = world();
      await coordinator("a").claim(null);
      return table.rows[0]!.leaseId;
    };
    const leaseId = await first();
    expect(leaseId).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(await first()).toBe(leaseId);
  });
});
