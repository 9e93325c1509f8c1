// Goal: the virtual clock behaves as the real one does, without waiting. Method: the clock itself.
import { AsyncLocalStorage } from "node:async_hooks";
import { expect, it } from "vitest";
import { VirtualClock } from "@holdfast/deadline-http/testing";

it("wakes sleepers in the order of their times, each at its own", async () => {
  const clock = new VirtualClock({ startMs: 100 });
  const woken: [string, number][] = [];
  const sleeper = async (name: string, ms: number): Promise<void> => {
    await clock.sleep(ms);
    woken.push([name, clock.now()]);
    if (name === "a") await sleeper("a2", 5);
  };
  const all = [sleeper("c", 30), sleeper("a", 10), sleeper("b", 20), sleeper("b'", 20)];
  await clock.advance(25);
  expect(woken).toEqual([
    ["a", 110],
    ["a2", 115],
    ["b", 120],
    ["b'", 120],
  ]);
  expect(clock.pending).toBe(1);
  await clock.advance(5);
  await Promise.all(all);
  expect([clock.now(), clock.pending]).toEqual([130, 0]);
});

it("lets what a timer sets going settle before the next, immediates included", async () => {
  const clock = new VirtualClock();
  const seen: string[] = [];
  const after = (turns: number, then: () => void): void => {
    if (turns === 0) void Promise.resolve().then(then);
    else setImmediate(() => after(turns - 1, then));
  };
  clock.setTimer(1, () => after(12, () => seen.push("settled")));
  clock.setTimer(1, () => seen.push("next"));
  await clock.advance(1);
  expect(seen).toEqual(["settled", "next"]);
});

it("runs callbacks in the async context that set them", async () => {
  const clock = new VirtualClock();
  const context = new AsyncLocalStorage<string>();
  const seen: unknown[] = [];
  context.run("setter", () => clock.setTimer(1, () => seen.push(context.getStore())));
  await context.run("advancer", () => clock.advance(1));
  expect(seen).toEqual(["setter"]);
});

it("moves the wall clock along, and steps it without moving an Instant", async () => {
  const clock = new VirtualClock({ wallMs: 1_000 });
  await clock.advance(50);
  clock.stepWall(-400);
  expect([clock.now(), clock.wallMs(), clock.partings()]).toEqual([50, 650, 1]);
  clock.stepWall(19);
  expect(clock.partings()).toBe(1);
});

it("DL-28 a suspend counts for now(), and its timers fire that much late", async () => {
  const clock = new VirtualClock();
  let firedAt = -1;
  clock.setTimer(100, () => (firedAt = clock.now()));
  clock.suspend(5_000);
  expect([clock.now(), clock.recheck(), clock.partings(), firedAt]).toEqual([5_000, 5_000, 0, -1]);
  expect(clock.sleptMs()).toBe(5_000);
  await clock.advance(99);
  expect(firedAt).toBe(-1);
  await clock.advance(1);
  expect(firedAt).toBe(5_100);
});

it("cancels, refuses NaN, and never fires Infinity", async () => {
  const clock = new VirtualClock();
  let fired = 0;
  clock.setTimer(5, () => fired++).cancel();
  clock.setTimer(Infinity, () => fired++);
  clock.setTimer(-3, () => fired++);
  expect(() => clock.setTimer(NaN, () => undefined)).toThrow("CONFIG_INVALID");
  const controller = new AbortController();
  const sleeping = clock.sleep(50, { signal: controller.signal });
  controller.abort();
  await expect(sleeping).rejects.toMatchObject({ code: "CANCELED" });
  await clock.advance(1_000);
  expect([fired, clock.pending]).toEqual([1, 0]);
});
