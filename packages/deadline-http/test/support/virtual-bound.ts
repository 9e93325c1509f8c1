// Calls over real sockets whose bounds and pauses pass on the virtual clock: a test waits until a call hangs where it wants it, and only then
// lets time pass. So no machine is too slow for a bound, a call that outlives its bound by a millisecond fails, and nobody waits for it.
import { expect } from "vitest";
import { systemClock, within } from "@holdfast/deadline-http";
import { VirtualClock } from "@holdfast/deadline-http/testing";
import { until } from "@holdfast-private/tests-machine";
import { failure, type Failed } from "./clickhouse.js";

/** Turns of the event loop: enough for what has arrived at this machine to be read, and for what follows from it without waiting. */
export async function turns(count = 10): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve));
}

/** A call that is under way, and whether it has ended. */
export interface Running<T> {
  readonly end: Promise<T>;
  readonly over: () => boolean;
}

export function running<T>(end: Promise<T>): Running<T> {
  let over = false;
  const note = (): void => void (over = true);
  end.then(note, note);
  return { end, over: () => over };
}

/** The calls end when `ms` have passed on the clock from here, and no sooner. */
async function endIn<T>(clock: VirtualClock, ms: number, calls: readonly Running<T>[]): Promise<T[]> {
  await clock.advance(ms - 1);
  const early = await Promise.allSettled(calls.filter(({ over }) => over()).map(({ end }) => end));
  expect(early, "ended before their bound").toEqual([]);
  await clock.advance(1);
  expect(calls.filter(({ over }) => !over()).length, "outlived their bound").toBe(0);
  return Promise.all(calls.map(({ end }) => end));
}

/** One such call. */
export async function endsIn<T>(clock: VirtualClock, ms: number, call: Running<T>): Promise<T> {
  const [end] = await endIn(clock, ms, [call]);
  return end as T;
}

/** The tolerance that DL-03 gives. */
const toleranceMs = 100;

/**
 * The error of a call under a bound of the machine's own clock: a timer for the bound and the tolerance finds it ended. It is set in the same
 * event loop right after the bound's own timer: a loop that is held up is late for both, and in their order.
 */
export async function endsByMachine(ms: number, call: () => Promise<unknown>): Promise<Failed> {
  let pass = (): void => undefined;
  const passed = new Promise<void>((resolve) => (pass = resolve));
  const watched = (): Promise<unknown> => {
    systemClock.setTimer(ms + toleranceMs, pass);
    return call();
  };
  const { end, over } = running(failure(() => within(ms, watched, { name: "the bound" })));
  await passed;
  await turns();
  expect(over(), "it outlived its bound").toBe(true);
  return end;
}

export interface BoundOptions {
  readonly ms?: number;
  readonly knobs?: Readonly<Record<string, number>>;
}

/** The errors of calls that all hang, as `hangs` says, and end by their bound exactly: that of `within`, called "the bound". */
export async function allEndByBound(
  calls: readonly (() => Promise<unknown>)[],
  hangs: () => boolean,
  { ms = 300, knobs = {} }: BoundOptions = {},
): Promise<Failed[]> {
  const clock = new VirtualClock();
  const all = calls.map((call) => running(failure(() => within(ms, call, { clock, name: "the bound", knobs }))));
  await until("the calls hang", () => all.some(({ over }) => over()) || hangs());
  await turns();
  return endIn(clock, ms, all);
}

/** One such call. */
export async function endsByBound(
  call: () => Promise<unknown>,
  hangs: () => boolean,
  o?: BoundOptions,
): Promise<Failed> {
  const [failed] = await allEndByBound([call], hangs, o);
  return failed!;
}

/**
 * Lets time pass while a call pauses between two attempts, and none while they run. The client has to have the same clock; `timers`: how many
 * of the clock's wait besides the pause, one for each scope and one for the call itself where it has a bound.
 */
export async function throughPauses<T>(clock: VirtualClock, timers: number, { end, over }: Running<T>): Promise<T> {
  for (;;) {
    await until("the call ends, or pauses", () => over() || clock.pending > timers, 2);
    if (over()) return end;
    // Pauses are multiples of it.
    await clock.advance(100);
  }
}
