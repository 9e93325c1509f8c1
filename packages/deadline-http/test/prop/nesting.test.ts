// Goal: for any nesting of scopes, any movement of their deadlines and any behaviour of the transport, no attempt starts
// past the deadline in force, none ends later, and a closed scope sends nothing. Method: random trees of scopes and
// requests on the virtual clock, judged by what the transport saw.
import fc from "fast-check";
import { expect, it } from "vitest";
import { instantAfter, within, withDeadline, type Instant } from "@holdfast/deadline-http";
import { VirtualClock } from "@holdfast/deadline-http/testing";
import { request, type Sent, type Step } from "../support/requests.js";

interface Limits {
  /** Every deadline around, as a function of now: what a correct request may rely on. */
  readonly due: readonly (() => number)[];
}

interface Tree {
  readonly kind: "within" | "moving";
  readonly ms: number;
  readonly startMs: number;
  readonly extendAtMs: number;
  readonly extendMs: number;
  readonly leaveMs: number;
  readonly requests: readonly { readonly afterMs: number; readonly script: readonly Step[] }[];
  readonly inner: readonly Tree[];
}

const time = fc.integer({ min: 0, max: 2_000 });
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ kind: fc.constant("answer" as const), afterMs: time }),
  fc.record({ kind: fc.constant("fault" as const), afterMs: time }),
  fc.record({ kind: fc.constant("refused" as const), afterMs: time }),
  fc.record({ kind: fc.constant("reset" as const), afterMs: time }),
  fc.record({ kind: fc.constant("silent" as const) }),
  fc.record({
    kind: fc.constant("queued" as const),
    forMs: time,
    then: fc.constantFrom<Step>({ kind: "silent" }, { kind: "answer", afterMs: 40 }, { kind: "reset" }),
  }),
);
const { tree } = fc.letrec<{ tree: Tree }>((tie) => ({
  tree: fc.record({
    kind: fc.constantFrom("within" as const, "moving" as const),
    ms: fc.oneof(time, fc.double({ min: 0, max: 5, noNaN: true })),
    startMs: fc.integer({ min: 0, max: 300 }),
    extendAtMs: time,
    extendMs: fc.integer({ min: 0, max: 1_000 }),
    leaveMs: time,
    requests: fc.array(fc.record({ afterMs: time, script: fc.array(step, { minLength: 1, maxLength: 3 }) }), {
      maxLength: 3,
    }),
    inner: fc.oneof({ depthSize: "small" }, fc.constant([]), fc.array(tie("tree"), { maxLength: 2 })),
  }),
}));

/** A request as the transport and its caller saw it. */
interface Observed {
  readonly log: Sent[];
  readonly limits: Limits;
  readonly closed: { at: number }[];
  begunAt: number;
  endedAt: number;
  bindingAtEnd: number;
}

it("DL-01 DL-02 DL-05 DL-18 no attempt outside the deadlines in force, and none of a scope that was left", async () => {
  await fc.assert(
    fc.asyncProperty(tree, async (root) => {
      const clock = new VirtualClock();
      const seen: Observed[] = [];
      const run = open(clock, root, { due: [] }, [], seen);
      run.catch(() => undefined);
      await clock.advance(60_000);
      for (const one of seen) {
        const earliest = Math.min(...one.limits.due.map((due) => due()));
        for (const { atMs, msLeft } of one.log) {
          for (const { at } of one.closed) expect(atMs, "sent after its scope was left").toBeLessThanOrEqual(at);
          expect(msLeft, "an attempt under 1 ms").toBeGreaterThanOrEqual(1);
        }
        expect(Number.isFinite(one.endedAt), "a request never ended").toBe(true);
        const latest = Math.max(one.begunAt, earliest, one.bindingAtEnd);
        expect(one.endedAt, "a request outlived its deadline").toBeLessThanOrEqual(latest + 1);
      }
      expect(clock.pending).toBe(0);
    }),
    { numRuns: 150 },
  );
});

async function open(
  clock: VirtualClock,
  node: Tree,
  outer: Limits,
  closedOutside: readonly { at: number }[],
  seen: Observed[],
): Promise<void> {
  await clock.sleep(node.startMs);
  let due: Instant = instantAfter(clock.now(), node.ms);
  const closed = { at: Infinity };
  const limits = { due: [...outer.due, () => due as number] };
  const body = async (): Promise<void> => {
    if (node.kind === "moving") clock.setTimer(node.extendAtMs, () => (due = instantAfter(due, node.extendMs)));
    for (const { afterMs, script } of node.requests) {
      const one: Observed = {
        log: [],
        limits,
        closed: [...closedOutside, closed],
        begunAt: NaN,
        endedAt: NaN,
        bindingAtEnd: -1,
      };
      seen.push(one);
      const call = clock.sleep(afterMs).then(() => {
        one.begunAt = clock.now();
        return request({ clock, script, log: watched(one) });
      });
      const end = (): void => {
        one.endedAt = clock.now();
      };
      // Forgotten on purpose: some of them outlive their scope.
      call.then(end, end);
    }
    for (const inner of node.inner) open(clock, inner, limits, [...closedOutside, closed], seen).catch(() => undefined);
    await clock.sleep(node.leaveMs);
  };
  const scope = node.kind === "within" ? within(node.ms, body, { clock }) : withDeadline(() => due, body, { clock });
  await scope.finally(() => (closed.at = clock.now())).catch(() => undefined);
}

/** Notes, beside each attempt, the latest moment at which its deadline in force then would come. */
function watched(one: Observed): Sent[] {
  one.log.push = (...sent: Sent[]): number => {
    for (const attempt of sent) {
      const inForce = Math.min(Infinity, ...one.limits.due.map((due) => due()));
      expect(attempt.msLeft, "more than what was left").toBeLessThanOrEqual(inForce - attempt.atMs);
      one.bindingAtEnd = Math.max(one.bindingAtEnd, inForce);
    }
    return Array.prototype.push.apply(one.log, sent);
  };
  return one.log;
}
