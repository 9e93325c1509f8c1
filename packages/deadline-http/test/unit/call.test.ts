// Goal: attempts, pauses and outcomes of one call. Method: scripted attempts on the virtual clock.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  CanceledError,
  DeadlineExceededError,
  instantAfter,
  RequestError,
  within,
  withDeadline,
  type Clock,
  type Instant,
  type Outcome,
  type Timer,
} from "@holdfast/deadline-http";
import { VirtualClock } from "@holdfast/deadline-http/testing";
import { runCall, type Attempt, type Held } from "../../src/call.js";
import { DeadlineTimer } from "../../src/deadline-timer.js";
import { graver } from "../../src/errors.js";
import { request, settled, type Sent, type Step } from "../support/requests.js";

describe("retries", () => {
  it("DL-05 no attempt starts past the deadline: fewer than allowed, the last error, and why", async () => {
    const clock = new VirtualClock();
    const log: Sent[] = [];
    const call = settled(
      clock,
      within(900, () => request({ clock, log, script: [{ kind: "fault", afterMs: 500 }] }), { clock }),
    );
    await clock.advance(5_000);
    expect(log.map(({ atMs }) => atMs)).toEqual([0, 600]);
    expect(call.atMs).toBe(900);
    expect(call.error).toMatchObject({ code: "DEADLINE_EXCEEDED" });
  });

  it("DL-05 no pause goes past it: the last error at once, with the clock unmoved", async () => {
    const clock = new VirtualClock();
    const log: Sent[] = [];
    // Three faults, after pauses of 100 and 200 ms; the fourth attempt would come 400 ms later, with 150 left.
    const call = settled(
      clock,
      within(450, () => request({ clock, log, script: [{ kind: "fault" }], maxAttempts: 9 }), { clock, name: "bound" }),
    );
    await clock.advance(300);
    expect(call).toMatchObject({ atMs: 300, error: { code: "REQUEST_FAILED", outcome: "refused" } });
    expect(call.error?.message).toMatch(/not tried again: 150 ms left, the next pause is 400 ms \(bound of 450 ms\)/);
    expect(log).toHaveLength(3);
    expect(clock.pending).toBe(0);
  });

  it("pauses 100 ms, doubling to 1 s, as often as the budget says", async () => {
    const clock = new VirtualClock();
    const log: Sent[] = [];
    const call = settled(clock, request({ clock, log, script: [{ kind: "fault" }], maxAttempts: 7 }));
    await clock.advance(10_000);
    expect(log.map(({ atMs }) => atMs)).toEqual([0, 100, 300, 700, 1_500, 2_500, 3_500]);
    expect(call.error?.message).toContain("not tried again: attempt 7 of 7");
  });

  it("a signal ends a pause", async () => {
    const clock = new VirtualClock();
    const controller = new AbortController();
    const call = settled(clock, request({ clock, script: [{ kind: "fault" }], signal: controller.signal }));
    await clock.advance(50);
    controller.abort();
    await clock.advance(0);
    expect(call).toMatchObject({ atMs: 50, error: { code: "CANCELED", outcome: "refused" } });
    expect(clock.pending).toBe(0);
  });
});

/** A machine that can sleep: its clock goes on, its timers do not. */
function sleeper() {
  const timers = new VirtualClock();
  let sleptMs = 0;
  const now = (): Instant => instantAfter(timers.now(), sleptMs);
  const clock: Clock = {
    now,
    recheck: now,
    partings: () => 0,
    wallMs: () => timers.wallMs(),
    sleep: (ms, o) => timers.sleep(ms, o),
    setTimer: (ms, callback) => timers.setTimer(ms, callback),
  };
  return { clock, timers, sleep: (ms: number) => void (sleptMs += ms) };
}

it("DL-29 a timer that is hurried in every turn is hurried once", async () => {
  const { clock, timers, sleep } = sleeper();
  let set = 0;
  const counting: Clock = { ...clock, setTimer: (ms, callback) => ((set += 1), clock.setTimer(ms, callback)) };
  const late: number[] = [];
  const timer = new DeadlineTimer(counting, instantAfter(clock.now(), 300), Infinity, (ms) => late.push(ms));
  sleep(400);
  for (let turn = 0; turn < 3; turn++) timer.hurry();
  expect(set).toBe(2);
  await timers.advance(0);
  timer.hurry();
  await timers.advance(0);
  expect([set, late]).toEqual([2, [100]]);
});

describe("what is left of a request's body", () => {
  const classify = () => ({ text: "made up", outcome: "unknown", retry: false }) as const;
  const call = (clock: Clock, attempt: (attempt: Attempt) => Promise<unknown>, signal: AbortSignal | null = null) =>
    settled(
      clock,
      within(300, () => runCall({ clock, limit: null, signal, maxAttempts: 1, attempt, classify }), { clock }),
    );

  it("DL-03 may be written until the bound has come, and then waits for the end of its attempt", async () => {
    const clock = new VirtualClock();
    const told: string[] = [];
    const ended = call(clock, async (attempt) => {
      for (const ms of [0, 299, 1]) {
        await clock.sleep(ms);
        told.push(attempt.permit());
      }
      await new Promise(() => undefined);
    });
    await clock.advance(300);
    expect(ended.error).toMatchObject({ code: "DEADLINE_EXCEEDED" });
    expect(told.slice(0, 2)).toEqual(["go-on", "go-on"]);
    expect(told[2]).not.toBe("go-on");
  });

  it("DL-03 has to wait when the loop comes back past the bound, before any timer has run", async () => {
    const { clock, timers, sleep } = sleeper();
    let attempt: Attempt | undefined;
    const ended = call(clock, (one) => ((attempt = one), new Promise(() => undefined)));
    await timers.advance(0);
    expect(attempt?.permit()).toBe("go-on");
    sleep(400);
    expect(attempt?.permit()).toBe("wait");
    // Judged in the next turns, however long its timer would still have slept.
    await timers.advance(0);
    expect(attempt?.permit()).toBe("cut");
    expect(ended.error?.message).toMatch(/the event loop was 100 ms late/);
    expect(timers.pending).toBe(0);
  });

  it("DL-03 of an answered call may be written until the bound, and of one that failed or was ended not at all", async () => {
    const clock = new VirtualClock();
    const controller = new AbortController();
    const attempts: Attempt[] = [];
    const ends = [
      call(clock, (one) => (attempts.push(one), Promise.resolve("an early answer"))),
      call(clock, (one) => (attempts.push(one), Promise.reject(new Error("broken")))),
      call(clock, (one) => (attempts.push(one), new Promise(() => undefined)), controller.signal),
    ];
    controller.abort();
    await clock.advance(0);
    expect(ends.map(({ error }) => (error as { code?: string } | undefined)?.code)).toEqual([
      undefined,
      "REQUEST_FAILED",
      "CANCELED",
    ]);
    expect(attempts.map((one) => one.permit())).toEqual(["go-on", "cut", "cut"]);
    await clock.advance(300);
    expect(attempts.map((one) => one.permit())).toEqual(["cut", "cut", "cut"]);
  });
});

describe("a body that is still to be read", () => {
  /** A call that was answered; its body is held, as an adapter does it, and what ends it is noted. */
  const held = async (clock: VirtualClock, ms: number) => {
    const ends: { error: Error; atMs: number }[] = [];
    let body: Held | undefined;
    const answered = (): Promise<string> =>
      runCall({
        clock,
        limit: { name: "limit", ms, knobs: {} },
        signal: null,
        maxAttempts: 1,
        attempt: async (attempt) => {
          attempt.start();
          attempt.markSent();
          body = attempt.hold((error) => ends.push({ error, atMs: clock.now() }));
          return "headers";
        },
        classify: () => ({ text: "it broke", outcome: "unknown", retry: false }),
      });
    expect(await answered()).toBe("headers");
    return { ends, body: body! };
  };

  it("DL-03 a body that is still to be read is ended by the deadline of its call", async () => {
    const clock = new VirtualClock();
    const { ends, body } = await held(clock, 300);
    await clock.advance(299);
    expect([ends.length, clock.pending]).toEqual([0, 1]);
    await clock.advance(5_000);
    expect(ends).toMatchObject([{ atMs: 300, error: { code: "DEADLINE_EXCEEDED", outcome: "unknown" } }]);
    expect(body.failed(new Error("destroyed"))).toBe(ends[0]?.error);
    expect(clock.pending).toBe(0);
  });

  it("DL-21 one that was read, or broke, leaves no timer", async () => {
    const clock = new VirtualClock();
    const [read, broken] = [await held(clock, 300), await held(clock, 300)];
    read.body.release();
    expect(broken.body.failed(new Error("cut"))).toMatchObject({ code: "REQUEST_FAILED", outcome: "unknown" });
    expect(clock.pending).toBe(0);
    await clock.advance(5_000);
    expect([read.ends, broken.ends]).toEqual([[], []]);
  });
});

describe("outcomes", () => {
  it("DL-08 refused at connect, reset after the body, refused at connect: unknown", async () => {
    const clock = new VirtualClock();
    const call = settled(
      clock,
      request({ clock, script: [{ kind: "refused" }, { kind: "reset" }, { kind: "refused" }] }),
    );
    await clock.advance(5_000);
    expect(call.error).toMatchObject({ code: "REQUEST_FAILED", outcome: "unknown" });
  });

  it("DL-08 over any list of attempts the outcome is the gravest of them", async () => {
    const outcome: Record<string, Outcome> = { refused: "not-sent", fault: "refused", reset: "unknown" };
    const steps = fc.array(fc.constantFrom<Step["kind"]>("refused", "fault", "reset"), { minLength: 1, maxLength: 6 });
    await fc.assert(
      fc.asyncProperty(steps, async (kinds) => {
        const clock = new VirtualClock();
        const script = kinds.map((kind) => ({ kind }) as Step);
        const call = settled(clock, request({ clock, script, maxAttempts: kinds.length }));
        await clock.advance(20_000);
        const gravest = kinds.map((kind) => outcome[kind]!).reduce(graver);
        expect(call.error?.outcome).toBe(gravest);
      }),
      { numRuns: 60 },
    );
  });

  it("DL-06 every error carries code, timedOut and outcome; a timeout names bound, value and every knob", () => {
    const bound = {
      name: "claim bound",
      ms: 5_000,
      knobs: { "lease.ttlMs": 15_000, "catalog.requestTimeoutMs": 60_000 },
    };
    const error = new DeadlineExceededError(bound, { outcome: "unknown" });
    expect(error).toMatchObject({ code: "DEADLINE_EXCEEDED", timedOut: true, outcome: "unknown", bound });
    for (const part of ["claim bound of 5000 ms", "lease.ttlMs = 15000", "catalog.requestTimeoutMs = 60000"]) {
      expect(error.message).toContain(part);
    }
    expect(new CanceledError({ outcome: "not-sent" })).toMatchObject({ code: "CANCELED", timedOut: false });
    expect(new RequestError("x", { outcome: "refused", serverCode: 60 })).toMatchObject({
      code: "REQUEST_FAILED",
      timedOut: false,
      outcome: "refused",
      serverCode: 60,
    });
  });
});

describe("late timers", () => {
  it("DL-29 one that fires over 20 ms late lets a poll phase pass; the reply that it brings is used", async () => {
    let reply: (value: string) => void = () => undefined;
    /** As after a stall: the timer runs first, the reply is read in the poll phase that follows. */
    class StalledLoop extends VirtualClock {
      override setTimer(ms: number, callback: () => void): Timer {
        return super.setTimer(ms, () => {
          setImmediate(() => reply("it was there"));
          callback();
        });
      }
    }
    const clock = new StalledLoop();
    const call = settled(
      clock,
      within(
        100,
        () =>
          runCall({
            clock,
            limit: null,
            signal: null,
            maxAttempts: 1,
            attempt: (attempt) => {
              attempt.markSent();
              return new Promise<string>((resolve) => (reply = resolve));
            },
            classify: () => ({ text: "", outcome: "unknown", retry: false }),
          }),
        { clock },
      ),
    );
    await clock.advance(0);
    clock.suspend(5_000);
    await clock.advance(100);
    expect(call).toMatchObject({ value: "it was there" });
  });

  it("DL-29 with no reply the error says how late the loop was", async () => {
    const clock = new VirtualClock();
    const call = settled(
      clock,
      within(100, () => request({ clock, script: [{ kind: "silent" }] }), { clock }),
    );
    await clock.advance(0);
    clock.suspend(312);
    await clock.advance(100);
    expect(call.error).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "unknown" });
    expect(call.error?.message).toContain("the event loop was 312 ms late");
  });

  it("DL-29 a within in a lease's scope is left within 200 ms of waking, too", async () => {
    const clock = new VirtualClock();
    const lease = instantAfter(clock.now(), 30_000);
    const call = settled(
      clock,
      withDeadline(lease, () => within(10_000, () => new Promise(() => undefined), { clock }), { clock }),
    );
    await clock.advance(1_000);
    clock.suspend(60_000);
    await clock.advance(200);
    expect(call.error).toMatchObject({ code: "DEADLINE_EXCEEDED", bound: { ms: 10_000 } });
  });

  it("DL-29 one that was set when the deadline had passed long ago is not late", async () => {
    const clock = new VirtualClock();
    const call = settled(
      clock,
      within(-100, () => new Promise(() => undefined), { clock }),
    );
    await clock.advance(0);
    expect(call.error?.message).toContain("within of -100 ms ran out; outcome unknown");
  });

  it("a lease's timer looks at the clock often, so that a suspend is noticed within 200 ms of waking", async () => {
    const clock = new VirtualClock();
    let expiredAt = -1;
    new DeadlineTimer(clock, (clock.now() + 15_000) as never, 200, () => (expiredAt = clock.now()));
    await clock.advance(1_000);
    clock.suspend(60_000);
    await clock.advance(200);
    expect(expiredAt).toBeGreaterThan(0);
    expect(clock.pending).toBe(0);
  });
});
