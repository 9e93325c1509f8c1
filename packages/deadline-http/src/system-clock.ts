import { uptime } from "node:os";
import { checkMs, instantAfter, type Clock, type Instant, type Timer } from "./clock.js";
import { sleepOn } from "./sleep.js";

/**
 * Where the system clock reads time; replaced in tests by fed sources. `bootMs` counts time asleep in steps of 10 ms;
 * null where the monotonic clock already does so.
 * @internal
 */
export interface ClockSources {
  monotonicMs(): number;
  wallMs(): number;
  readonly bootMs: (() => number) | null;
}

const linuxBoot = (): number => uptime() * 1000;

const systemSources: ClockSources = {
  monotonicMs: () => performance.now(),
  wallMs: () => Date.now(),
  // Only Linux's monotonic clock stands still during a suspend; macOS and Windows count it.
  bootMs: process.platform === "linux" ? linuxBoot : null,
};

/** Node fires a timer of more than this at once, with a warning. */
const longestNodeTimer = 2 ** 31 - 1;
/** Wall and monotonic clock within this of each other: nothing happened (clock slewing, a busy loop). */
const partedMs = 20;
/** The step of the boot clock: two readings of it may hide or invent less than this. */
const bootStepMs = 10;

/**
 * `now()` is monotonic + slept. `slept` only grows. It is read from the boot clock when wall and monotonic clock have
 * parted, and at every `recheck()`; a difference under one step of the boot clock may be rounding and is left to
 * accumulate until it is more, so at most two steps (20 ms) of sleep are ever uncounted, which the margin of a lease covers.
 * @internal
 */
export class SystemClock implements Clock {
  readonly #sources: ClockSources;
  /** boot - monotonic when this clock was made: from there, growth of that difference is sleep. */
  readonly #bootOffset: number;
  /** wall - monotonic at the last calibration. */
  #wallOffset: number;
  #sleptSeen = 0;
  #slept = 0;
  #partings = 0;

  constructor(sources: ClockSources = systemSources) {
    this.#sources = sources;
    const monotonic = sources.monotonicMs();
    this.#bootOffset = sources.bootMs ? sources.bootMs() - monotonic : 0;
    this.#wallOffset = sources.wallMs() - monotonic;
  }

  now(): Instant {
    const monotonic = this.#sources.monotonicMs();
    const parted = this.#sources.wallMs() - monotonic - this.#wallOffset;
    if (parted >= partedMs || parted <= -partedMs) this.#calibrate(monotonic, parted);
    return (monotonic + this.#slept) as Instant;
  }

  recheck(): Instant {
    const monotonic = this.#sources.monotonicMs();
    this.#calibrate(monotonic, this.#sources.wallMs() - monotonic - this.#wallOffset);
    return (monotonic + this.#slept) as Instant;
  }

  partings(): number {
    this.now();
    return this.#partings;
  }

  wallMs(): number {
    return this.#sources.wallMs();
  }

  sleep(ms: number, o?: { signal?: AbortSignal }): Promise<void> {
    return sleepOn((delay, callback) => this.setTimer(delay, callback), ms, o?.signal);
  }

  setTimer(ms: number, callback: () => void, o?: { unref?: boolean }): Timer {
    checkMs("timer", ms);
    let handle: NodeJS.Timeout | undefined;
    const due = instantAfter(this.now(), ms);
    // Re-armed in pieces above Node's longest timer, and when Node fired a fraction of a millisecond early.
    const arm = (leftMs: number): void => {
      handle = setTimeout(fire, Math.min(Math.max(0, Math.ceil(leftMs)), longestNodeTimer));
      if (o?.unref) handle.unref();
    };
    const fire = (): void => {
      const leftMs = due - this.now();
      if (leftMs > 0) arm(leftMs);
      else callback();
    };
    if (ms !== Infinity) arm(ms);
    return { cancel: () => clearTimeout(handle) };
  }

  #calibrate(monotonic: number, parted: number): void {
    let newlySlept = 0;
    if (this.#sources.bootMs) {
      const seen = this.#sources.bootMs() - monotonic - this.#bootOffset;
      if (seen - this.#sleptSeen >= bootStepMs) {
        newlySlept = seen - this.#sleptSeen;
        this.#sleptSeen = seen;
        // Rounded up one step: the true value lies within one step above what two coarse readings show.
        this.#slept = Math.max(this.#slept, seen + bootStepMs);
      }
    }
    if (Math.abs(parted - newlySlept) >= partedMs) this.#partings += 1;
    this.#wallOffset += parted;
  }
}
