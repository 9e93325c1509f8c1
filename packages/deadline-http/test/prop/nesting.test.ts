// Goal: for any nesting of scopes, any movement of their deadlines, any parallel requests, aborts and scopes left early, and
// any behaviour of the transport: no attempt starts past the deadline in force, none ends later, a closed scope sends
// nothing, outcomes are true, and nothing is left behind. Method: random worlds on the virtual clock, where times are
// exact, judged by what the transport saw.
import fc from "fast-check";
import { expect, it } from "vitest";
import { instantAfter, within, withDeadline } from "@holdfast/deadline-http";
import { VirtualClock } from "@holdfast/deadline-http/testing";
import { graver, type Outcome } from "../../src/errors.js";
import { request, settled, type Step } from "../support/requests.js";
import { around, HookError, plan, World, type Observed, type OpenScope } from "../support/world.js";

const worlds = (judge: (world: World) => void, numRuns = 150): Promise<void> =>
  fc.assert(
    fc.asyncProperty(plan, async (root) => {
      const world = new World();
      await world.run(root);
      judge(world);
    }),
    { numRuns },
  );

/** Every request, those that run in detached work included. */
const ended = (one: Observed): { atMs: number; code: string | undefined } => {
  expect(one.end.atMs, "a request never ended").toBeDefined();
  return { atMs: one.end.atMs!, code: one.end.error?.code };
};

it("DL-01 DL-02 DL-05 DL-18 DL-19 no attempt outside the deadlines in force, none of a scope that was left", async () => {
  await worlds((world) => {
    for (const one of world.requests) expect(one.wrong).toEqual([]);
  });
});

it("DL-01 DL-03 no call ends later than the deadline in force, and none by a deadline that has not come", async () => {
  await worlds((world) => {
    for (const one of world.requests) {
      const { atMs, code } = ended(one);
      // The deadline as last read by the call; a wait for a hook reads it again when it comes.
      const latest = Math.max(one.begunAt, one.binding, world.lastInForce(one.scope, one.limitDue));
      expect(atMs, "a request outlived its deadline").toBeLessThanOrEqual(latest);
      if (one.sent.length > 0) expect(atMs, "or the bound of its attempts").toBeLessThanOrEqual(one.binding);
      if (code === "DEADLINE_EXCEEDED") expect(atMs, "too early").toBeGreaterThan(one.binding - 1);
      const { joined } = one;
      if (!joined) continue;
      expect(joined.end.atMs, "a caller of detached work was kept").toBeLessThanOrEqual(
        Math.max(joined.begunAt, world.lastInForce(joined.scope), Math.min(atMs, closing(joined.scope))),
      );
    }
  });
});

it("DL-01 a scope of within is left by its deadline or its signal, whatever runs in it", async () => {
  await worlds((world) => {
    for (const { closedAt, leaveBy } of world.scopes) expect(closedAt).toBeLessThanOrEqual(leaveBy);
  });
});

const closing = (scope: OpenScope): number => Math.min(...around(scope).map(({ closedAt }) => closedAt));

const outcomeOf = (as: Step["kind"] | undefined): Outcome =>
  as === "fault" ? "refused" : as === "answer" ? "not-sent" : "unknown";

it("DL-07 DL-08 the outcome of a call is that of its gravest attempt, whatever ended the call", async () => {
  await worlds((world) => {
    for (const { end, sent } of world.requests) {
      if (!end.error || end.error instanceof HookError) continue;
      const over = sent.map(({ ends }) => outcomeOf(ends?.as)).reduce(graver, "not-sent");
      // What ended in the same moment as the call may or may not have been seen.
      const tied = sent.some(({ ends }) => ends?.atMs === end.atMs);
      expect(tied ? [over, "unknown"] : [over]).toContain(end.error.outcome);
    }
  });
});

it("DL-18 DL-19 DL-23 each error has its reason: a bound, a loss, an abort, a scope that was left", async () => {
  await worlds((world) => {
    for (const one of world.requests) {
      const { atMs, code } = ended(one);
      const scopes = around(one.scope);
      if (code === "LEASE_LOST") expect(scopes.some(({ gone }) => gone)).toBe(true);
      if (code === "CANCELED") expect(one.aborted || scopes.some(({ aborted }) => aborted)).toBe(true);
      if (code === "SCOPE_CLOSED") expect(closing(one.scope!)).toBeLessThanOrEqual(atMs);
      if (code === "LEASE_LOST") expect(one.sent.some(({ ends }) => !ends)).toBe(false);
    }
  });
});

it("DL-14 DL-16 a hook never runs beside itself, and its failure is the request's", async () => {
  await worlds((world) => {
    for (const { hooks } of world.scopes) {
      for (const [n, { from }] of hooks.entries()) if (n > 0) expect(from).toBeGreaterThanOrEqual(hooks[n - 1]!.to);
    }
    for (const { end, sent } of world.requests) if (end.error instanceof HookError) expect(sent).toEqual([]);
  });
});

it("DL-22 detached work ends by itself or by its own bound, whatever becomes of its caller", async () => {
  await worlds((world) => {
    for (const { joined, end, aborted } of world.requests) {
      if (!joined) continue;
      if (end.error && !aborted) expect(["REQUEST_FAILED", "DEADLINE_EXCEEDED"]).toContain(end.error.code);
      if (joined.end.error && joined.end.error !== end.error) expect(joined.end.error.outcome).toBe("not-sent");
    }
  });
});

it("DL-21 afterwards no timer is pending, no listener on any signal, nothing in any scope", async () => {
  await worlds((world) => {
    expect(world.leftBehind()).toEqual([]);
    for (const { closedAt, node } of world.scopes)
      if (node) expect([node.closed, closedAt < Infinity]).toEqual([true, true]);
  });
});

it("the worlds are worth judging: every kind of end, of a caller and of an attempt, is met many times", async () => {
  const met: Record<string, number> = {};
  const meet = (what: string): void => void (met[what] = (met[what] ?? 0) + 1);
  await worlds((world) => {
    for (const { end, sent, joined } of world.requests) {
      meet(end.error instanceof HookError ? "hook" : (end.error?.code ?? "answer"));
      for (const { ends } of sent) meet(`attempt ${ends?.as ?? "cut"}`);
      if (sent.length > 1) meet("retried");
      if (joined) meet(`joined ${joined.end.error?.code ?? "answer"}`);
    }
  }, 300);
  const expected = ["hook", "answer", "DEADLINE_EXCEEDED", "LEASE_LOST", "CANCELED", "SCOPE_CLOSED", "REQUEST_FAILED"];
  const attempts = ["attempt answer", "attempt fault", "attempt reset", "attempt cut", "retried"];
  const joined = ["joined answer", "joined DEADLINE_EXCEEDED", "joined SCOPE_CLOSED"];
  for (const what of [...expected, ...attempts, ...joined]) expect([what, met[what] ?? 0].join(" ")).toMatch(/ [1-9]/);
});

it("DL-29 a suspend at any moment: under a lease a request ends by its deadline or within 200 ms of waking", async () => {
  const ms = fc.integer({ min: 1, max: 20_000 });
  await fc.assert(
    fc.asyncProperty(ms, ms, ms, fc.integer({ min: 1, max: 3_600_000 }), async (dueMs, withinMs, at, asleepMs) => {
      const clock = new VirtualClock();
      const silent = (): Promise<string> => request({ clock, script: [{ kind: "silent" }] });
      const call = settled(
        clock,
        withDeadline(instantAfter(clock.now(), dueMs), () => within(withinMs, silent, { clock }), { clock }),
      );
      await clock.advance(at);
      clock.suspend(asleepMs);
      const woke = clock.now();
      await clock.advance(100_000);
      const due = Math.min(dueMs, withinMs);
      expect(call.atMs).toBeGreaterThanOrEqual(due);
      expect(call.atMs).toBeLessThanOrEqual(due <= at ? due : Math.max(due, woke + 200));
      expect(clock.pending).toBe(0);
    }),
    { numRuns: 150 },
  );
});
