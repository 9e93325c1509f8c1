// Goal: now() counts sleep, never goes back, and says what it cannot explain. Method: fed clock sources, and for the
// arming of timers the real ones of this machine.
import { uptime } from "node:os";
import { describe, expect, it } from "vitest";
import { instantAfter, remainingMs, systemClock, withDeadline } from "@holdfast/deadline-http";
import { SystemClock } from "../../src/system-clock.js";

/** A machine whose clocks are moved by hand; the boot clock shows whole steps of 10 ms, as Linux's does. */
class Machine {
  monotonic = 5_003.7;
  wall = 1_700_000_000_000.2;
  boot = 90_012.4;
  bootReads = 0;
  constructor(readonly hasBoot = true) {}
  readonly sources = {
    monotonicMs: () => this.monotonic,
    wallMs: () => this.wall,
    bootMs: null as (() => number) | null,
  };
  clock(): SystemClock {
    this.sources.bootMs = this.hasBoot
      ? () => {
          this.bootReads++;
          return Math.floor(this.boot / 10) * 10;
        }
      : null;
    return new SystemClock(this.sources);
  }
  run(ms: number): void {
    this.monotonic += ms;
    this.wall += ms;
    this.boot += ms;
  }
  sleep(ms: number): void {
    this.wall += ms;
    this.boot += ms;
  }
}

describe("time asleep", () => {
  it("DL-28 ten sleeps of 30 ms are all counted, rounded up by one step of the boot clock", () => {
    const machine = new Machine();
    const clock = machine.clock();
    const start = clock.now();
    for (let n = 1; n <= 10; n++) {
      machine.run(7.3);
      machine.sleep(30);
      const slept = clock.now() - start - 7.3 * n;
      expect(slept).toBeGreaterThanOrEqual(30 * n);
      expect(slept).toBeLessThanOrEqual(30 * n + 20);
      expect(clock.sleptMs()).toBeCloseTo(slept, 6);
    }
    expect(clock.partings()).toBe(0);
  });

  it("DL-28 at every phase of the boot clock's steps no sleep of 20 ms or more is missed", () => {
    for (let phase = 0; phase < 10; phase += 0.7) {
      for (const slept of [20.01, 21.5, 25, 29.9, 60_000]) {
        const machine = new Machine();
        machine.boot += phase;
        const clock = machine.clock();
        const start = clock.now();
        machine.run(phase * 1.3);
        machine.sleep(slept);
        const seen = clock.now() - start - phase * 1.3;
        expect(seen, `phase ${phase}, slept ${slept}`).toBeGreaterThanOrEqual(slept);
        expect(seen).toBeLessThanOrEqual(slept + 20);
      }
    }
  });

  it("DL-28 a sleep with an equal and opposite wall step is counted at a lease request", () => {
    const machine = new Machine();
    const clock = machine.clock();
    const start = clock.now();
    machine.sleep(10_000);
    machine.wall -= 10_000;
    expect(clock.now()).toBe(start);
    expect(clock.recheck() - start).toBeGreaterThanOrEqual(10_000);
    expect(clock.now() - start).toBeGreaterThanOrEqual(10_000);
    expect(clock.partings()).toBe(1);
  });

  it("DL-28 short sleeps accumulate until the boot clock shows them", () => {
    const machine = new Machine();
    const clock = machine.clock();
    const start = clock.now();
    for (let n = 0; n < 20; n++) {
      machine.sleep(9);
      clock.recheck();
    }
    expect(clock.now() - start).toBeGreaterThanOrEqual(160);
  });

  it("DL-28 a wall step, either way, moves no Instant, and counts as a parting", () => {
    const machine = new Machine();
    const clock = machine.clock();
    const start = clock.now();
    machine.wall -= 3_600_000;
    expect(clock.now()).toBe(start);
    machine.run(5);
    machine.wall += 10_000;
    expect(clock.now() - start).toBeCloseTo(5, 6);
    expect(clock.partings()).toBe(2);
    machine.run(1_000);
    expect(clock.partings()).toBe(2);
  });

  it("DL-28 a pause that no clock saw shows as a parting when the wall clock is set right by 10 s", () => {
    const machine = new Machine();
    const clock = machine.clock();
    machine.run(100);
    const before = clock.now();
    // The host stops the machine for 10 s: none of its clocks moves. Then it learns the time.
    expect([clock.now() - before, clock.partings()]).toEqual([0, 0]);
    machine.wall += 10_000;
    expect(clock.partings()).toBe(1);
    expect([clock.recheck() - before, clock.now() - before]).toEqual([0, 0]);
    expect(clock.partings()).toBe(1);
  });

  it("DL-28 time asleep comes off what is left of a deadline, and a step of the wall clock does not", async () => {
    const machine = new Machine();
    const clock = machine.clock();
    const left: number[] = [];
    await withDeadline(
      instantAfter(clock.now(), 15_000),
      async () => {
        left.push(remainingMs());
        for (let n = 0; n < 10; n++) {
          machine.sleep(30);
          left.push(remainingMs());
        }
        machine.wall += 10_000;
        left.push(remainingMs());
      },
      { clock },
    );
    expect(left[0]).toBe(15_000);
    for (let n = 1; n <= 10; n++) {
      expect(left[n]).toBeLessThanOrEqual(15_000 - 30 * n);
      expect(left[n]).toBeGreaterThanOrEqual(15_000 - 30 * n - 21);
    }
    expect(left[11]).toBe(left[10]);
  });

  it("DL-28 being set aside by the system between two readings is neither a sleep nor a parting", () => {
    // The process is taken off the processor for 40 ms right after a clock was read, whichever that is.
    const sources = ["monotonicMs", "wallMs", "bootMs"] as const;
    for (const after of sources) {
      const machine = new Machine();
      const clock = machine.clock();
      const start = clock.now();
      let aside = 0;
      for (const name of sources) {
        const read = machine.sources[name];
        if (read === null) throw new Error("the machine has all clocks");
        machine.sources[name] = () => {
          const value = read();
          if (name === after && aside > 0) {
            aside--;
            machine.run(40);
          }
          return value;
        };
      }
      aside = 1;
      clock.now();
      aside = 1;
      clock.recheck();
      aside = 0;
      expect(clock.now() - start, `after ${after}`).toBeLessThanOrEqual(80);
      expect(clock.partings(), `after ${after}`).toBe(0);
    }
  });

  it("DL-28 the boot clock is read when wall and monotonic part and at a recheck, not otherwise", () => {
    const machine = new Machine();
    const clock = machine.clock();
    const atStart = machine.bootReads;
    for (let n = 0; n < 100; n++) {
      machine.run(1);
      machine.wall += 0.1;
      clock.now();
    }
    expect(machine.bootReads - atStart).toBe(0);
    machine.wall += 15;
    clock.now();
    expect(machine.bootReads - atStart).toBe(1);
    clock.recheck();
    expect(machine.bootReads - atStart).toBe(2);
  });

  it("DL-28 where the monotonic clock counts sleep itself, the boot clock is never read", () => {
    const machine = new Machine(false);
    const clock = machine.clock();
    const start = clock.now();
    machine.run(50);
    machine.sleep(10_000);
    expect(clock.recheck() - start).toBeCloseTo(50, 6);
    expect([machine.bootReads, clock.partings()]).toEqual([0, 1]);
  });

  it("DL-28 now never goes back, whatever the clocks do", () => {
    const machine = new Machine();
    const clock = machine.clock();
    let last = clock.now();
    const moves = [0.4, 12, 19.9, 20, 35, 900];
    for (let n = 0; n < 600; n++) {
      const ms = moves[n % moves.length]!;
      [() => machine.run(ms), () => machine.sleep(ms), () => (machine.wall -= ms), () => (machine.wall += ms * 2)][
        n % 4
      ]!();
      const now = n % 5 === 0 ? clock.recheck() : clock.now();
      expect(now).toBeGreaterThanOrEqual(last);
      last = now;
    }
  });
});

describe("on this machine", () => {
  it("agrees with the boot clock and does not count sleep that was none", () => {
    // Each reading of the boot clock is between two of ours, however long the machine sets this process aside.
    const around = (): readonly [from: number, boot: number, to: number] => {
      const from = systemClock.recheck();
      const boot = uptime() * 1_000;
      return [from, boot, systemClock.recheck()];
    };
    const first = around();
    for (let n = 0; n < 200; n++) systemClock.recheck();
    const last = around();
    const passed = last[1] - first[1];
    // The boot clock's steps are of 10 ms; on waking one step of sleep is added.
    expect(last[0] - first[2]).toBeLessThan(passed + 25);
    expect(last[2] - first[0]).toBeGreaterThan(passed - 25);
    const [before, wall, after] = [Date.now(), systemClock.wallMs(), Date.now()];
    expect(wall).toBeGreaterThanOrEqual(before);
    expect(wall).toBeLessThanOrEqual(after);
  });

  it("DL-29 timers above 2^31 - 1 ms do not fire early, and warn of nothing", async () => {
    const warnings: Error[] = [];
    const onWarning = (warning: Error): void => void warnings.push(warning);
    process.on("warning", onWarning);
    const fired: number[] = [];
    const waits = [2 ** 31 - 1, 2 ** 31, 3e9, 30 * 86_400_000, Infinity];
    const timers = waits.map((ms) => systemClock.setTimer(ms, () => fired.push(ms)));
    // One that Node took for overlong would fire after a millisecond, before this.
    await systemClock.sleep(50);
    process.off("warning", onWarning);
    for (const timer of timers) timer.cancel();
    expect(fired).toEqual([]);
    expect(warnings.filter(({ name }) => name === "TimeoutOverflowWarning")).toEqual([]);
  });

  it("a sleep never ends early", async () => {
    for (let n = 0; n < 30; n++) {
      const start = systemClock.now();
      await systemClock.sleep(1.5);
      expect(systemClock.now() - start).toBeGreaterThanOrEqual(1.5);
    }
  });

  it("sleep ends with CANCELED on abort, before and while, and leaves no listener", async () => {
    const controller = new AbortController();
    const sleeping = systemClock.sleep(60_000, { signal: controller.signal });
    controller.abort(new Error("own"));
    await expect(sleeping).rejects.toMatchObject({ code: "CANCELED", outcome: "not-sent", timedOut: false });
    await expect(systemClock.sleep(1, { signal: controller.signal })).rejects.toMatchObject({ code: "CANCELED" });
    await expect(async () => systemClock.sleep(NaN)).rejects.toMatchObject({ code: "CONFIG_INVALID" });
  });

  it("a timer with unref does not keep the process alive, one without does", () => {
    const kept = systemClock.setTimer(60_000, () => undefined);
    const count = (): number => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
    const withKept = count();
    const loose = systemClock.setTimer(60_000, () => undefined, { unref: true });
    expect(count()).toBe(withKept);
    kept.cancel();
    loose.cancel();
    expect(count()).toBe(withKept - 1);
  });
});
