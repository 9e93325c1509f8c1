// Goal: the beforeRequest hook runs when, where and as often as it should. Method: counters and the virtual clock.
import { describe, expect, it } from "vitest";
import { detached, instantAfter, within, withDeadline } from "@holdfast/deadline-http";
import { VirtualClock } from "@holdfast/deadline-http/testing";
import { request, settled, type Sent } from "../support/requests.js";

describe("beforeRequest", () => {
  it("DL-14 runs once per call, before the deadline is read", async () => {
    const clock = new VirtualClock();
    const log: Sent[] = [];
    let hooks = 0;
    let deadline = instantAfter(clock.now(), 1_000);
    const call = withDeadline(
      () => deadline,
      () => request({ clock, log, script: [{ kind: "reset" }, { kind: "reset" }, { kind: "answer" }] }),
      {
        clock,
        beforeRequest: async () => {
          hooks++;
          await clock.sleep(10);
          deadline = instantAfter(deadline, 2_000);
        },
      },
    );
    await clock.advance(2_000);
    expect(await call).toBe("answer");
    expect(hooks).toBe(1);
    expect(log.map(({ atMs, msLeft }) => [atMs, msLeft])).toEqual([
      [10, 2_990],
      [110, 2_890],
      [310, 2_690],
    ]);
  });

  it("DL-14 of nested scopes only the innermost one's runs", async () => {
    const clock = new VirtualClock();
    const counts = [0, 0, 0];
    const scope = <T>(n: number, fn: () => Promise<T>): Promise<T> =>
      withDeadline(instantAfter(clock.now(), 1_000), fn, {
        clock,
        beforeRequest: async () => {
          counts[n]!++;
        },
      });
    const call = scope(0, () => scope(1, () => scope(2, () => request({ clock }))));
    await clock.advance(0);
    await call;
    expect(counts).toEqual([0, 0, 1]);
  });

  it("a scope without one leaves the next one's in force", async () => {
    const clock = new VirtualClock();
    let hooks = 0;
    const call = withDeadline(
      instantAfter(clock.now(), 1_000),
      () => within(500, () => request({ clock }), { clock }),
      {
        clock,
        beforeRequest: async () => {
          hooks++;
        },
      },
    );
    await clock.advance(0);
    await call;
    expect(hooks).toBe(1);
  });

  it("DL-14 its failure is the caller's, and nothing is sent", async () => {
    const clock = new VirtualClock();
    const log: Sent[] = [];
    const failure = new Error("renewal refused");
    const call = settled(
      clock,
      withDeadline(instantAfter(clock.now(), 1_000), () => request({ clock, log }), {
        clock,
        beforeRequest: () => Promise.reject(failure),
      }),
    );
    await clock.advance(0);
    expect(call.error).toBe(failure);
    expect(log).toEqual([]);
    expect(clock.pending).toBe(0);
  });

  it("DL-15 does not run inside itself; a parallel request outside it waits for it", async () => {
    const clock = new VirtualClock();
    const log: Sent[] = [];
    const own: Sent[] = [];
    let hooks = 0;
    const run = withDeadline(
      instantAfter(clock.now(), 10_000),
      async () => {
        const first = request({ clock, log });
        await clock.sleep(50);
        // The hook of the first runs; this one is begun outside its context.
        const second = request({ clock, log });
        await Promise.all([first, second]);
      },
      {
        clock,
        beforeRequest: async () => {
          hooks++;
          for (let n = 0; n < 3; n++) await request({ clock, log: own, script: [{ kind: "answer", afterMs: 100 }] });
        },
      },
    );
    await clock.advance(299);
    expect([hooks, own.length, log.length]).toEqual([1, 3, 0]);
    await clock.advance(1_000);
    await run;
    expect([hooks, own.length]).toEqual([1, 3]);
    expect(log.map(({ atMs }) => atMs)).toEqual([300, 300]);
  });

  it("DL-16 is single-flight: parallel requests share one run and read the deadline after it", async () => {
    const clock = new VirtualClock();
    const log: Sent[] = [];
    let hooks = 0;
    let deadline = instantAfter(clock.now(), 100);
    const run = withDeadline(
      () => deadline,
      () => Promise.all(Array.from({ length: 8 }, () => request({ clock, log }))),
      {
        clock,
        beforeRequest: async () => {
          hooks++;
          await clock.sleep(20);
          deadline = instantAfter(clock.now(), 5_000);
        },
      },
    );
    await clock.advance(1_000);
    await run;
    expect(hooks).toBe(1);
    expect(log.map(({ msLeft }) => msLeft)).toEqual(Array(8).fill(5_000));
  });

  it("a hook that hangs does not hold a request past the deadline, extended or not", async () => {
    const clock = new VirtualClock();
    let deadline = instantAfter(clock.now(), 100);
    const call = settled(
      clock,
      withDeadline(
        () => deadline,
        () => request({ clock }),
        {
          clock,
          beforeRequest: () => new Promise(() => undefined),
        },
      ),
    );
    await clock.advance(50);
    deadline = instantAfter(deadline, 300);
    await clock.advance(1_000);
    expect(call).toMatchObject({ atMs: 400, error: { code: "DEADLINE_EXCEEDED", outcome: "not-sent" } });
  });

  it("a lease statement that the hook detaches is not cut by the scope", async () => {
    const clock = new VirtualClock();
    const renewals: Sent[] = [];
    const controller = new AbortController();
    let renewed: ReturnType<typeof settled> = {};
    const call = settled(
      clock,
      withDeadline(instantAfter(clock.now(), 50), () => request({ clock }), {
        clock,
        signal: controller.signal,
        beforeRequest: async () => {
          const renew = within(
            1_000,
            () => request({ clock, log: renewals, script: [{ kind: "answer", afterMs: 200 }] }),
            { clock },
          );
          renewed = settled(clock, renew);
          await renew;
        },
      }),
    );
    // In the hook's own context the scope binds; what must not be cut goes through detached().
    await clock.advance(500);
    expect(renewed).toMatchObject({ atMs: 50 });
    expect(call).toMatchObject({ atMs: 50 });

    let free: ReturnType<typeof settled> = {};
    const other = settled(
      clock,
      withDeadline(instantAfter(clock.now(), 50), () => request({ clock }), {
        clock,
        beforeRequest: () =>
          detached(async () => {
            const renew = within(1_000, () => request({ clock, script: [{ kind: "answer", afterMs: 200 }] }), {
              clock,
            });
            free = settled(clock, renew);
            await renew;
          }),
      }),
    );
    await clock.advance(500);
    expect(other.atMs).toBe(550);
    expect(free).toMatchObject({ value: "answer", atMs: 700 });
  });
});
