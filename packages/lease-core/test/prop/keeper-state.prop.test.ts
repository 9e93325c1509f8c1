/**
 * Goal: the invariants above `Phase` hold after any events at any times. Method: random event sequences through the pure `step`, with time
 * that goes on by random amounts; and each event in each state once.
 */
import type { Instant, Outcome } from "@holdfast/deadline-http";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { HeldLease, LossReason } from "../../src/index.js";
import { initialState, type KeeperEvent, type KeeperRules, type KeeperState } from "../../src/keeper-state.js";
import { holds, nextAct, step } from "../../src/keeper-step.js";

const ms = (value: number) => value as Instant;
const rules = (reacquire: KeeperRules["reacquire"]): KeeperRules => ({
  ttlMs: 3000,
  tickMs: 500,
  renewAfterMs: 1000,
  latchAfterMs: 6000,
  streakClearsAfterMs: 6000,
  reacquire,
});

/** An event, given the state and the time at which it happens. */
type Draw = (state: KeeperState, now: number) => KeeperEvent;
const heldId = (state: KeeperState) => (state.phase.s === "held" ? state.phase.lease.leaseId : null);

const draws: fc.Arbitrary<Draw> = fc.oneof(
  fc.constant<Draw>(() => ({ e: "now" })),
  fc.constant<Draw>((state) => ({ e: "parted", partings: state.partings + 1 })),
  fc.integer({ min: 0, max: 4000 }).map((slept): Draw => () => ({ e: "slept", ms: slept })),
  fc.constant<Draw>(() => ({ e: "stand-down" })),
  fc.constant<Draw>((state) => ({ e: "renewing", leaseId: heldId(state) ?? "none" })),
  fc.boolean().map((timedOut): Draw => (state) => ({
    e: "stretch-ended",
    leaseIdBefore: heldId(state),
    timeoutsEverBefore: state.timeoutsEver,
    timedOut: timedOut ? "a bound" : null,
  })),
  fc
    .tuple(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 0, max: 4000 }), fc.constantFrom("mine", "fresh"))
    .map(([term, age, which]): Draw => (state, now) => {
      const leaseId = which === "mine" ? (heldId(state) ?? "fresh") : `fresh-${term}`;
      const lease: HeldLease = {
        leaseId,
        term: BigInt(term),
        sentAt: ms(now - age),
        deadline: ms(now - age + 2900),
        partings: state.partings - (age % 5 === 0 ? 1 : 0),
      };
      return { e: "claimed", lease };
    }),
  fc
    .tuple(fc.boolean(), fc.boolean(), fc.boolean(), fc.integer({ min: 500, max: 1000 }))
    .map(([renewal, foreign, seeking, waitMs]): Draw => (state) => ({
      e: "refused",
      renewalOf: renewal ? heldId(state) : null,
      seeking,
      takenOver: true,
      foreign,
      rival: "rival",
      message: "refused",
      waitMs,
    })),
  fc
    .tuple(
      fc.constantFrom("held", "dropped", null),
      fc.boolean(),
      fc.constantFrom("not-sent", "refused", "unknown"),
      fc.boolean(),
    )
    .map(([renewal, seeking, insert, timedOut]): Draw => (state) => ({
      e: "failed",
      // No claim is made beside a renewal that is under way: a dropped one ends before anything else is held.
      renewalOf: renewal === "held" ? heldId(state) : heldId(state) === null ? renewal : null,
      seeking,
      insert,
      timedOut,
      message: "failed",
    })),
  fc.boolean().map((timedOut): Draw => (state) => ({
    e: "quarantine",
    leaseId: heldId(state) ?? "none",
    timedOut,
    message: "unknown outcome",
  })),
  fc.constant<Draw>((state) => ({ e: "released", leaseId: heldId(state) ?? "none" })),
  fc.constant<Draw>(() => ({ e: "release-failed", message: "not written" })),
);
/** Each way out of a state and the events that may take it, as the comment above `Phase` has it; time may act with any event. */
const ways: Readonly<Record<string, readonly (KeeperEvent["e"] | "time")[]>> = {
  "none>held": ["claimed"],
  "none>quarantined": ["failed", "claimed"],
  "none>reacquiring": ["refused", "failed"],
  "held>quarantined": ["time", "failed", "quarantine"],
  "held>reacquiring": ["refused"],
  "held>none": ["refused"],
  "held>released": ["released"],
  "quarantined>none": ["time"],
  "quarantined>reacquiring": ["time"],
  "reacquiring>held": ["claimed"],
  "reacquiring>quarantined": ["failed", "claimed"],
  "reacquiring>failed": ["refused"],
  "reacquiring>released": ["stand-down"],
  "released>held": ["claimed"],
  "released>quarantined": ["failed", "claimed"],
  "released>reacquiring": ["refused", "failed"],
};
/** Reasons that an event may give for a loss; those of time come with any. */
const reasonsOf: Partial<Record<KeeperEvent["e"], readonly LossReason[]>> = {
  refused: ["taken-over", "refused"],
  failed: ["renewal-timed-out", "outcome-unknown"],
  quarantine: ["outcome-unknown"],
  released: ["released"],
};
const ofTime: readonly LossReason[] = ["deadline-passed", "suspended", "unconfirmed", "renewal-timed-out"];

type Act = readonly [Draw, pauseMs: number];
const acts = fc.tuple(draws, fc.integer({ min: 0, max: 2000 }));
/** A rival that stays: without such spells hardly a run would come near the latch. */
const spells = fc
  .tuple(fc.integer({ min: 4, max: 12 }), fc.integer({ min: 500, max: 1000 }))
  .map(([length, waitMs]) => {
    const refused: KeeperEvent = {
      e: "refused",
      renewalOf: null,
      seeking: true,
      takenOver: true,
      foreign: true,
      rival: "rival",
      message: "refused",
      waitMs,
    };
    return Array.from({ length }, (): Act => [() => refused, waitMs]);
  });
const one = acts.map((act): readonly Act[] => [act]);
const runs = fc
  .array(fc.oneof({ weight: 9, arbitrary: one }, { weight: 1, arbitrary: spells }), { maxLength: 50 })
  .map((parts) => parts.flat());

describe("any run of events", () => {
  it.each(["latch", "keep-trying", "no"] as const)("LS-24 LS-25 keeps the invariants (reacquire: %s)", (reacquire) => {
    const reached = new Set<string>();
    const taken = new Set<string>();
    fc.assert(
      fc.property(runs, (events) => {
        let state = initialState;
        let now = 10_000;
        let quietUntil = 0;
        let refusedSince: number | null = null;
        for (const [draw, pause] of events) {
          now += pause;
          const event = draw(state, now);
          const before = state;
          const { next, effects } = step(state, event, ms(now), rules(reacquire));
          state = next;
          reached.add(next.phase.s);
          // I1: nothing is held past its deadline.
          if (next.phase.s === "held") expect(now).toBeLessThan(next.phase.lease.deadline);
          // I2: a held lease goes forward in (term, sentAt), and a different one only replaces one that was lost.
          if (before.phase.s === "held" && next.phase.s === "held") {
            const [old, current] = [before.phase.lease, next.phase.lease];
            expect(current.leaseId).toBe(old.leaseId);
            expect(current.term > old.term || (current.term === old.term && current.sentAt >= old.sentAt)).toBe(true);
          }
          // I3: quarantine lasts a TTL, whatever happens in it; from the end of a renewal on that may have been sent.
          const late = event.e === "claimed" || (event.e === "failed" && event.insert === "unknown");
          if (next.phase.s === "quarantined" && (before.phase.s !== "quarantined" || late)) {
            quietUntil = now + 3000;
            expect(next.phase.until).toBe(quietUntil);
          }
          if (now < quietUntil) {
            expect(next.phase.s).toBe("quarantined");
            expect(nextAct(next)).toBeNull();
          }
          // I4: one event counts one timeout at the most.
          expect(next.timeoutsEver - before.timeoutsEver).toBeLessThanOrEqual(1);
          // ... and only for a timeout; none is forgotten but at the end of a stretch, after 2 x TTL held.
          const over = before.phase.s === "held" && now >= before.phase.lease.deadline;
          if (next.timeoutsEver > before.timeoutsEver) {
            const seenLate = event.e === "claimed" && now >= event.lease.deadline;
            expect(
              over || seenLate || ("timedOut" in event && event.timedOut !== false && event.timedOut !== null),
            ).toBe(true);
          }
          if (next.timeouts < before.timeouts) {
            expect([event.e, next.timeouts]).toEqual(["stretch-ended", 0]);
            expect(next.phase.s === "held" && now - next.phase.heldSince >= 6000).toBe(true);
          }
          // The ways between the states, one by one.
          let at = before.phase.s;
          for (const effect of effects) {
            if (effect.do !== "tell") continue;
            const way = `${effect.from}>${effect.to}`;
            expect(effect.from).toBe(at);
            const byTime = effect === effects.find((one) => one.do === "tell") && ways[way]?.includes("time") === true;
            expect([way, byTime || ways[way]?.includes(event.e) === true]).toEqual([way, true]);
            at = effect.to;
            taken.add(way);
          }
          expect(next.phase.s).toBe(at);
          // I6: the latch needs refusals by others for 2 x TTL without a break.
          if (event.e === "refused") refusedSince = event.foreign ? (refusedSince ?? now) : null;
          if (effects.some((one) => one.do === "tell" && (one.to === "quarantined" || one.to === "held")))
            refusedSince = null;
          if (next.phase.s === "failed" && before.phase.s !== "failed") {
            expect(refusedSince === null ? 0 : now - refusedSince).toBeGreaterThanOrEqual(6000);
          }
          // Each lost lease is signalled once, with its id and a reason that what happened can give.
          const losses = effects.filter((effect) => effect.do === "signal-loss");
          const lostId = heldId(before);
          const gone = lostId !== null && !holds(next, lostId);
          expect(losses.map(({ loss }) => loss.leaseId)).toEqual(gone ? [lostId] : []);
          for (const { loss } of losses) {
            expect(over ? ofTime : (reasonsOf[event.e] ?? [])).toContain(loss.reason);
            expect(next.lastLoss).toEqual(loss);
          }
          if (before.phase.s === "failed") expect(next.phase.s).toBe("failed");
          if (reacquire !== "latch") expect(next.phase.s).not.toBe("failed");
        }
      }),
      { numRuns: 1000 },
    );
    const all = ["held", "none", "quarantined", "released", ...(reacquire === "no" ? [] : ["reacquiring"])];
    expect([...reached].sort()).toEqual(expect.arrayContaining(all) as string[]);
    if (reacquire === "latch") expect([...taken]).toContain("reacquiring>failed");
    if (reacquire === "keep-trying") {
      // Every way but the latch, and those that need nobody to seek, was taken.
      const open = Object.keys(ways).filter((way) => !["reacquiring>failed", "held>none"].includes(way));
      expect([...taken].sort()).toEqual(open.sort());
    }
  });
});

describe("answers that come late", () => {
  const claim = (leaseId: string, term: bigint, sentAt: number): KeeperEvent => ({
    e: "claimed",
    lease: { leaseId, term, sentAt: ms(sentAt), deadline: ms(sentAt + 2900), partings: 0 },
  });
  const take = (state: KeeperState, event: KeeperEvent, now: number) => step(state, event, ms(now), rules("no")).next;

  it("LS-24 answers of two claims delivered in reverse leave the newer", () => {
    const held = take(initialState, claim("a", 1n, 0), 10);
    const newer = take(held, claim("a", 3n, 1500), 1600);
    const both = take(newer, claim("a", 2n, 1000), 1700);
    expect(both.phase).toMatchObject({ s: "held", lease: { term: 3n, sentAt: 1500 } });
    expect(both.renewals).toBe(1);
    expect(take(newer, claim("a", 3n, 1400), 1700).phase).toMatchObject({ lease: { sentAt: 1500 } });
  });

  it("LS-25 LS-27 a success that is seen past its deadline, or in quarantine, makes and keeps nothing", () => {
    // Its row stands: it is waited out.
    const late = take(initialState, claim("a", 1n, 0), 2900);
    expect(late).toMatchObject({ phase: { s: "quarantined", until: 5900 }, timeouts: 1 });
    const held = take(initialState, claim("a", 1n, 0), 10);
    expect(take(held, claim("a", 2n, 1000), 2899).phase).toMatchObject({ s: "held", lease: { term: 2n } });
    // Seen at the old lease's deadline: the lease is given up first, and the renewal comes too late for it.
    expect(take(held, claim("a", 2n, 1000), 2900).phase).toMatchObject({ s: "quarantined", until: 5900 });
  });

  it("LS-25 a late failure of a renewal does not count again, and is waited out if it may have been sent", () => {
    const held = take(initialState, claim("a", 1n, 0), 10);
    const lost = take(held, { e: "now" }, 2900);
    const late = (insert: Outcome): KeeperEvent => ({
      e: "failed",
      renewalOf: "a",
      seeking: true,
      insert,
      timedOut: true,
      message: "late",
    });
    expect(take(lost, late("not-sent"), 3500).phase).toEqual(lost.phase);
    const again = take(lost, late("unknown"), 3500);
    expect(again).toMatchObject({ phase: { s: "quarantined", until: 6500 }, timeouts: 1 });
    // A loop that stood still for longer than the quarantine: the row can have been stamped until now all the same.
    expect(take(lost, late("unknown"), 9000)).toMatchObject({
      phase: { s: "quarantined", until: 12_000 },
      timeouts: 1,
    });
  });
});
