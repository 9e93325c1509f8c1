// Goal: scopes bind what is begun in them, as tightly as they say and no tighter, and nothing once they are left.
// Method: requests whose transport is a script, on the virtual clock; times are exact.
import { describe, expect, it, onTestFinished } from "vitest";
import { detached, instantAfter, remainingMs, within, withDeadline, type Instant } from "@holdfast/deadline-http";
import { VirtualClock } from "@holdfast/deadline-http/testing";
import { request, settled, type Sent, type Settled } from "../support/requests.js";

const silent = [{ kind: "silent" }] as const;

describe("nesting", () => {
  it.each([
    ["outer 300, inner 1000", 300, 1000],
    ["outer 1000, inner 300", 1000, 300],
  ])("DL-01 the earliest deadline ends the request: %s", async (_name, outerMs, innerMs) => {
    const clock = new VirtualClock();
    const scoped = settled(
      clock,
      within(outerMs, () => within(innerMs, () => request({ clock, script: silent }), { name: "inner", clock }), {
        name: "outer",
        clock,
      }),
    );
    const free = settled(clock, request({ clock, script: silent }));
    await clock.advance(5_000);
    expect(scoped.atMs).toBe(300);
    expect(scoped.error).toMatchObject({ code: "DEADLINE_EXCEEDED", timedOut: true, bound: { ms: 300 } });
    expect(free).toEqual({});
  });

  it("DL-01 a scope follows async work and not the process", async () => {
    const clock = new VirtualClock();
    const inside = settled(
      clock,
      within(
        300,
        async () => {
          await clock.sleep(100);
          await Promise.resolve();
          return request({ clock, script: silent });
        },
        { clock },
      ),
    );
    const log: Sent[] = [];
    await clock.advance(150);
    const beside = settled(clock, request({ clock, script: [{ kind: "answer", afterMs: 1_000 }], log }));
    await clock.advance(2_000);
    expect(inside.atMs).toBe(300);
    expect(beside).toMatchObject({ value: "answer", atMs: 1_150 });
    expect(log[0]?.msLeft).toBe(Infinity);
  });

  it("remainingMs is Infinity outside, the tightest inside, and 0 when past, gone or closed", async () => {
    const clock = new VirtualClock();
    expect(remainingMs()).toBe(Infinity);
    let later: () => number = () => -1;
    const run = within(
      1_000.9,
      async () => {
        expect(remainingMs()).toBe(1_000);
        await withDeadline(instantAfter(clock.now(), 400), async () => expect(remainingMs()).toBe(400), { clock });
        await withDeadline(
          () => "gone",
          async () => expect(remainingMs()).toBe(0),
          { clock },
        );
        await clock.sleep(10);
        later = (
          (resume) => () =>
            resume
        )(remainingMs());
        const inContext = clock.sleep(50).then(remainingMs);
        later = () => -1;
        void inContext.then((value) => (later = () => value));
      },
      { clock },
    );
    await clock.advance(10);
    await run;
    await clock.advance(50);
    expect(later()).toBe(0);
  });
});

describe("the whole milliseconds left", () => {
  it("DL-02 an attempt gets them rounded down; under 1 ms nothing is sent", async () => {
    const clock = new VirtualClock();
    const log: Sent[] = [];
    const enough = settled(
      clock,
      within(999.7, () => request({ clock, log, script: silent }), { clock }),
    );
    await clock.advance(998.9);
    expect(enough).toEqual({});
    await clock.advance(0.1);
    expect(log).toEqual([{ atMs: 0, attempt: 1, msLeft: 999 }]);
    expect(enough).toMatchObject({ atMs: 999, error: { code: "DEADLINE_EXCEEDED", outcome: "unknown" } });

    const tooLate = settled(
      clock,
      within(0.9, () => request({ clock, log }), { clock }),
    );
    await clock.advance(1);
    expect(log).toHaveLength(1);
    expect(tooLate.error).toMatchObject({ code: "DEADLINE_EXCEEDED", timedOut: true, outcome: "not-sent" });
  });

  it.each([
    [0, 0],
    [-5, 0],
    [0.4, 0],
  ])("a scope of %s ms lets nothing out", async (ms, sent) => {
    const clock = new VirtualClock();
    const log: Sent[] = [];
    const call = settled(
      clock,
      within(ms, () => request({ clock, log }), { clock }),
    );
    await clock.advance(10);
    expect(log).toHaveLength(sent);
    expect(call.error).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "not-sent" });
  });

  it("NaN is refused, Infinity binds nothing, and 30 days are 30 days", async () => {
    const clock = new VirtualClock();
    await expect(within(NaN, async () => 1)).rejects.toMatchObject({ code: "CONFIG_INVALID" });
    const slow = [{ kind: "answer", afterMs: 3e9 }] as const;
    const free = settled(
      clock,
      within(Infinity, () => request({ clock, script: slow }), { clock }),
    );
    const month = settled(
      clock,
      within(30 * 86_400_000, () => request({ clock, script: silent }), { clock }),
    );
    await clock.advance(3e9);
    expect(free).toMatchObject({ value: "answer", atMs: 3e9 });
    expect(month.atMs).toBe(30 * 86_400_000);
  });
});

describe("a deadline that is a function", () => {
  it("DL-04 is asked again before each attempt", async () => {
    const clock = new VirtualClock();
    const log: Sent[] = [];
    let deadline = instantAfter(clock.now(), 1_000);
    const call = withDeadline(
      () => deadline,
      () => request({ clock, log, script: [{ kind: "refused", afterMs: 50 }, { kind: "answer" }] }),
      { clock },
    );
    await clock.advance(50);
    deadline = instantAfter(deadline, 2_000);
    await clock.advance(200);
    expect(await call).toBe("answer");
    expect(log).toEqual([{ atMs: 150, attempt: 2, msLeft: 2_850 }]);
  });

  it("DL-04 and when the wait for a socket is over", async () => {
    const clock = new VirtualClock();
    const log: Sent[] = [];
    let deadline = instantAfter(clock.now(), 1_000);
    const call = settled(
      clock,
      withDeadline(
        () => deadline,
        () => request({ clock, log, script: [{ kind: "queued", forMs: 600, then: { kind: "silent" } }] }),
        { clock },
      ),
    );
    await clock.advance(100);
    deadline = instantAfter(deadline, 500);
    await clock.advance(2_000);
    expect(log).toEqual([{ atMs: 600, attempt: 1, msLeft: 900 }]);
    expect(call.atMs).toBe(1_500);
  });

  it("DL-04 and in the pause before the next attempt, which the old deadline does not end", async () => {
    const clock = new VirtualClock();
    const log: Sent[] = [];
    let deadline = instantAfter(clock.now(), 1_000);
    const call = settled(
      clock,
      withDeadline(
        () => deadline,
        () => request({ clock, log, script: [{ kind: "fault", afterMs: 950 }, { kind: "answer" }] }),
        { clock },
      ),
    );
    await clock.advance(900);
    deadline = instantAfter(deadline, 2_000);
    await clock.advance(5_000);
    expect(call).toMatchObject({ value: "answer", atMs: 1_050 });
    expect(log[1]).toEqual({ atMs: 1_050, attempt: 2, msLeft: 1_950 });
  });

  it("DL-19 gone refuses before the first and before the second attempt, and is never no bound", async () => {
    const clock = new VirtualClock();
    const log: Sent[] = [];
    let lost = true;
    const deadline = (): Instant | "gone" => (lost ? "gone" : instantAfter(clock.now(), 1_000));
    const first = settled(
      clock,
      withDeadline(deadline, () => request({ clock, log }), { clock }),
    );
    await clock.advance(0);
    expect(first.error).toMatchObject({ code: "LEASE_LOST", outcome: "not-sent", timedOut: false });
    expect(log).toEqual([]);

    lost = false;
    const second = settled(
      clock,
      withDeadline(deadline, () => request({ clock, log, script: [{ kind: "refused" }, { kind: "answer" }] }), {
        clock,
      }),
    );
    await clock.advance(50);
    lost = true;
    await clock.advance(1_000);
    expect(second.error).toMatchObject({ code: "LEASE_LOST", outcome: "not-sent" });
    expect(log).toEqual([]);
  });

  it.each([NaN, undefined, null])(
    "DL-19 a deadline function that answers %s does not mean no bound",
    async (answer) => {
      const clock = new VirtualClock();
      const log: Sent[] = [];
      const inside = async (): Promise<string> => {
        expect(remainingMs()).toBe(0);
        return request({ clock, log });
      };
      const call = settled(
        clock,
        withDeadline(() => answer as never, inside, { clock }),
      );
      await clock.advance(0);
      expect(call.error).toMatchObject({ code: "LEASE_LOST", outcome: "not-sent" });
      expect(log).toEqual([]);
    },
  );

  it("DL-20 the first loss cancels siblings that are not sent, and leaves the sent ones alone", async () => {
    const clock = new VirtualClock();
    const log: Sent[] = [];
    let lost = false;
    const calls = await withDeadline(
      () => (lost ? "gone" : instantAfter(clock.now(), 10_000)),
      async () => {
        const started = [
          request({ clock, log, script: [{ kind: "answer", afterMs: 500 }] }),
          request({ clock, log, script: [{ kind: "queued", forMs: 2_000, then: { kind: "answer" } }] }),
          request({ clock, log, script: [{ kind: "queued", forMs: 2_000, then: { kind: "answer" } }] }),
        ].map((call) => settled(clock, call));
        await clock.advance(100);
        lost = true;
        started.push(settled(clock, request({ clock, log })));
        await clock.advance(500);
        return started;
      },
      { clock },
    );
    expect(calls[0]).toMatchObject({ value: "answer", atMs: 500 });
    for (const call of calls.slice(1)) {
      expect(call).toMatchObject({ atMs: 100, error: { code: "LEASE_LOST", outcome: "not-sent" } });
    }
    expect(log).toHaveLength(1);
  });
});

describe("a scope that was left", () => {
  it("DL-18 refuses a forgotten await, a timer and an event handler, and its hook stays silent", async () => {
    const clock = new VirtualClock();
    const log: Sent[] = [];
    const events = new EventTarget();
    const late: Promise<unknown>[] = [];
    const forget = (call: Promise<unknown>): void => {
      call.catch(() => undefined);
      late.push(call);
    };
    let hooks = 0;
    const stretch = (): Promise<string> =>
      withDeadline(
        instantAfter(clock.now(), 10_000),
        async () => {
          forget(clock.sleep(100).then(() => request({ clock, log })));
          clock.setTimer(100, () => forget(request({ clock, log })));
          return request({ clock, log });
        },
        {
          clock,
          name: "stretch",
          beforeRequest: async () => {
            hooks++;
          },
        },
      );
    const first = stretch();
    await clock.advance(0);
    await first;
    // An event handler runs in the context that dispatches; this one carries the scope on by a promise made inside it.
    await withDeadline(
      instantAfter(clock.now(), 10_000),
      async () => {
        const inside = new Promise((resolve) => events.addEventListener("go", resolve, { once: true }));
        forget(inside.then(() => request({ clock, log })));
      },
      {
        clock,
        beforeRequest: async () => {
          hooks++;
        },
      },
    );
    events.dispatchEvent(new Event("go"));
    await clock.advance(100);
    const ends = await Promise.allSettled(late);
    expect(ends).toHaveLength(3);
    for (const end of ends) {
      expect(end).toMatchObject({ status: "rejected", reason: { code: "SCOPE_CLOSED", outcome: "not-sent" } });
    }
    expect([hooks, log.length]).toEqual([1, 1]);
    const next = stretch();
    await clock.advance(0);
    expect(await next).toBe("answer");
    expect([hooks, log.length]).toEqual([2, 2]);
  });

  it("ends what still runs in it, nested scopes included, and leaves no timer", async () => {
    const clock = new VirtualClock();
    const forgotten: ReturnType<typeof settled>[] = [];
    const leave = within(
      1_000,
      async () => {
        forgotten.push(settled(clock, request({ clock, script: silent })));
        const inner = within(900, () => request({ clock, script: silent }), { clock });
        forgotten.push(settled(clock, inner));
        await clock.sleep(10);
        return "left";
      },
      { clock },
    );
    await clock.advance(10);
    expect(await leave).toBe("left");
    await clock.advance(0);
    for (const call of forgotten) {
      expect(call).toMatchObject({ atMs: 10, error: { code: "SCOPE_CLOSED", outcome: "unknown" } });
    }
    expect(clock.pending).toBe(0);
  });
});

describe("within settles by its deadline", () => {
  it("whatever fn waits for", async () => {
    const clock = new VirtualClock();
    const knobs = { "job.timeoutMs": 250 };
    const call = settled(
      clock,
      within(250, () => new Promise(() => undefined), { name: "job", knobs, clock }),
    );
    await clock.advance(1_000);
    expect(call.error).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "unknown" });
    expect(call.error?.message).toContain("job of 250 ms (job.timeoutMs = 250) ran out");
  });

  it("with the error of the request that ran, which knows the outcome", async () => {
    const clock = new VirtualClock();
    const queued = [{ kind: "queued", forMs: 9_000, then: { kind: "answer" } }] as const;
    const call = settled(
      clock,
      within(250, () => request({ clock, script: queued }), { clock }),
    );
    await clock.advance(1_000);
    expect(call.error).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "not-sent" });
  });

  it("and withDeadline waits for fn", async () => {
    const clock = new VirtualClock();
    const call = settled(
      clock,
      withDeadline(instantAfter(clock.now(), 100), () => clock.sleep(5_000), { clock }),
    );
    await clock.advance(4_999);
    expect(call).toEqual({});
    await clock.advance(1);
    expect(call.atMs).toBe(5_000);
  });

  it("passes on what fn throws, at once or later", async () => {
    const thrown = (): never => {
      throw new RangeError("own");
    };
    await expect(within(100, thrown)).rejects.toBeInstanceOf(RangeError);
    await expect(within(3_600_000, async () => thrown())).rejects.toBeInstanceOf(RangeError);
  });
});

describe("what a scope remembers", () => {
  it("DL-17 that a request under it ended by its bound, parallel ones included, until cleared", async () => {
    const clock = new VirtualClock();
    let seen: unknown[] = [];
    const run = within(
      10_000,
      async (outer) => {
        await withDeadline(
          instantAfter(clock.now(), 5_000),
          async (scope) => {
            const limit = { name: "requestTimeoutMs", ms: 100, knobs: {} };
            const together = Promise.allSettled([
              request({ clock, script: silent, limit }),
              request({ clock, script: [{ kind: "answer", afterMs: 200 }] }),
              request({ clock, script: [{ kind: "answer", afterMs: 400 }] }),
            ]);
            expect([scope.waiting, outer.waiting]).toEqual([3, 3]);
            await together;
            expect([scope.waiting, outer.waiting]).toEqual([0, 0]);
            seen = [scope.timedOut?.name, outer.timedOut?.name];
            scope.clearTimedOut();
            seen.push(scope.timedOut, outer.timedOut?.name);
            await request({ clock });
            seen.push(scope.timedOut);
          },
          { clock },
        );
      },
      { clock },
    );
    await clock.advance(1_000);
    await run;
    expect(seen).toEqual(["requestTimeoutMs", "requestTimeoutMs", null, "requestTimeoutMs", null]);
  });
});

describe("the caller's signal", () => {
  it("DL-23 is CANCELED where a deadline is DEADLINE_EXCEEDED, each with its outcome", async () => {
    const clock = new VirtualClock();
    const ends = async (queued: boolean, abort: boolean) => {
      const controller = new AbortController();
      const then = { kind: "silent" } as const;
      const script = [queued ? ({ kind: "queued", forMs: 5_000, then } as const) : then];
      const call = settled(
        clock,
        within(200, () => request({ clock, script, signal: controller.signal }), { clock }),
      );
      await clock.advance(100);
      if (abort) controller.abort(new Error("own reason"));
      await clock.advance(1_000);
      return [call.error?.code, call.error?.outcome, call.error?.timedOut];
    };
    expect(await ends(true, true)).toEqual(["CANCELED", "not-sent", false]);
    expect(await ends(false, true)).toEqual(["CANCELED", "unknown", false]);
    expect(await ends(true, false)).toEqual(["DEADLINE_EXCEEDED", "not-sent", true]);
    expect(await ends(false, false)).toEqual(["DEADLINE_EXCEEDED", "unknown", true]);
    expect(clock.pending).toBe(0);
  });

  it("of a scope ends all its requests, and refuses to open when it is aborted already", async () => {
    const clock = new VirtualClock();
    const controller = new AbortController();
    const options = { clock, signal: controller.signal };
    const call = settled(
      clock,
      withDeadline(instantAfter(clock.now(), 9_000), () => request({ clock, script: silent }), options),
    );
    const stuck = settled(
      clock,
      within(9_000, () => new Promise(() => undefined), options),
    );
    await clock.advance(100);
    controller.abort();
    await clock.advance(0);
    expect(call).toMatchObject({ atMs: 100, error: { code: "CANCELED", outcome: "unknown" } });
    expect(stuck).toMatchObject({ atMs: 100, error: { code: "CANCELED" } });
    let ran = false;
    await expect(within(100, async () => (ran = true), options)).rejects.toMatchObject({ code: "CANCELED" });
    expect([ran, clock.pending]).toEqual([false, 0]);
  });
});

describe("detached work", () => {
  it("DL-22 a caller waits no longer than its own deadline, and the work goes on for another", async () => {
    const clock = new VirtualClock();
    const log: Sent[] = [];
    let refresh: Promise<string> | null = null;
    const token = (): Promise<string> =>
      detached(() => (refresh ??= request({ clock, log, script: [{ kind: "answer", afterMs: 300 }] })));
    const hasty = settled(clock, within(50, token, { clock }));
    const patient = settled(clock, within(1_000, token, { clock }));
    await clock.advance(2_000);
    expect(hasty).toMatchObject({ atMs: 50, error: { code: "DEADLINE_EXCEEDED", outcome: "not-sent" } });
    expect(patient).toMatchObject({ value: "answer", atMs: 300 });
    expect(log).toEqual([{ atMs: 0, attempt: 1, msLeft: Infinity }]);
    expect(clock.pending).toBe(0);
  });

  it("DL-22 the caller's signal and the end of its scope do not cut it either", async () => {
    const clock = new VirtualClock();
    const controller = new AbortController();
    const work = { kind: "answer", afterMs: 300 } as const;
    const done: ReturnType<typeof settled>[] = [];
    const joined: ReturnType<typeof settled>[] = [];
    const join = (): void => {
      const begin = (): Promise<string> => {
        const running = request({ clock, script: [work] });
        done.push(settled(clock, running));
        return running;
      };
      joined.push(settled(clock, detached(begin)));
    };
    const canceled = within(1_000, async () => (join(), clock.sleep(900)), { clock, signal: controller.signal });
    canceled.catch(() => undefined);
    await within(1_000, async () => join(), { clock });
    await clock.advance(100);
    controller.abort();
    await clock.advance(1_000);
    expect(joined.map(({ error }) => [error?.code, error?.outcome])).toEqual([
      ["CANCELED", "not-sent"],
      ["SCOPE_CLOSED", "not-sent"],
    ]);
    expect(done.map(({ atMs }) => atMs)).toEqual([300, 300]);
  });

  it("runs fn as it is outside any scope, and with a deadline that moves follows it", async () => {
    const clock = new VirtualClock();
    expect(await detached(async () => remainingMs())).toBe(Infinity);
    let deadline = instantAfter(clock.now(), 100);
    const call = settled(
      clock,
      withDeadline(
        () => deadline,
        () => detached(() => clock.sleep(250).then(() => "done")),
        { clock },
      ),
    );
    await clock.advance(50);
    deadline = instantAfter(deadline, 1_000);
    await clock.advance(1_000);
    expect(call).toMatchObject({ value: "done", atMs: 250 });
  });
});

describe("a within inside another scope", () => {
  const never = (): Promise<never> => new Promise(() => undefined);

  it("DL-21 is left with it, at its deadline, its end or its abort, and leaves no timer", async () => {
    const clock = new VirtualClock();
    let inner: Settled | undefined;
    const forget = (): Settled => (inner = settled(clock, within(3_000, never, { clock, name: "inner" })));

    const late = settled(
      clock,
      within(50, async () => (forget(), never()), { clock, name: "outer" }),
    );
    await clock.advance(100);
    expect(late).toMatchObject({ atMs: 50, error: { code: "DEADLINE_EXCEEDED" } });
    expect(inner).toMatchObject({ atMs: 50, error: { code: "DEADLINE_EXCEEDED", bound: { name: "outer", ms: 50 } } });
    expect(clock.pending).toBe(0);

    await withDeadline(instantAfter(clock.now(), 1_000), async () => void forget(), { clock });
    await clock.advance(0);
    expect(inner).toMatchObject({ atMs: 100, error: { code: "SCOPE_CLOSED" } });
    expect(clock.pending).toBe(0);

    const controller = new AbortController();
    const outer = within(1_000, async () => (forget(), never()), { clock, signal: controller.signal });
    controller.abort();
    await expect(outer).rejects.toMatchObject({ code: "CANCELED" });
    expect(inner).toMatchObject({ error: { code: "CANCELED" } });
    expect(clock.pending).toBe(0);
  });

  it("ends silently when nobody awaits it", async () => {
    const clock = new VirtualClock();
    const unhandled: unknown[] = [];
    const note = (error: unknown): void => void unhandled.push(error);
    process.on("unhandledRejection", note);
    onTestFinished(() => void process.off("unhandledRejection", note));
    await within(1_000, async () => void within(3_000, never, { clock }), { clock });
    await clock.advance(5_000);
    expect([unhandled, clock.pending]).toEqual([[], 0]);
  });
});
