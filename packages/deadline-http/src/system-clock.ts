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
/** Readings of two clocks this near to each other count as one moment. */
const togetherMs = 1;
/** How often to try for such a pair before the reading is taken as it is or put off. */
const tries = 8;

/** The clocks at one moment; `spreadMs` is how long it took to read them. */
interface Reading {
  readonly monotonic: number;
  readonly wall: number;
  readonly boot: number | null;
  readonly spreadMs: number;
}

/** Re-armed in pieces above Node's longest timer, and when Node fired a fraction of a millisecond early. */
class SystemTimer implements Timer {
  #handle: NodeJS.Timeout | undefined;

  constructor(
    readonly clock: Clock,
    readonly due: Instant,
    readonly callback: () => void,
    readonly unref: boolean,
  ) {}

  arm(leftMs: number): void {
    this.#handle = setTimeout(fire, Math.min(Math.max(0, Math.ceil(leftMs)), longestNodeTimer), this);
    if (this.unref) this.#handle.unref();
  }

  cancel(): void {
    clearTimeout(this.#handle);
  }
}

/** One function for all timers: a closure for each would be half of what a short scope costs. */
function fire(timer: SystemTimer): void {
  const leftMs = timer.due - timer.clock.now();
  if (leftMs > 0) timer.arm(leftMs);
  else timer.callback();
}

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
    const { monotonic, wall, boot } = this.#read();
    this.#bootOffset = boot === null ? 0 : boot - monotonic;
    this.#wallOffset = wall - monotonic;
  }

  now(): Instant {
    const monotonic = this.#sources.monotonicMs();
    const parted = this.#sources.wallMs() - monotonic - this.#wallOffset;
    return parted >= partedMs || parted <= -partedMs ? this.recheck() : this.#at(monotonic);
  }

  recheck(): Instant {
    this.#calibrate(this.#read());
    return this.#at(this.#sources.monotonicMs());
  }

  #at(monotonic: number): Instant {
    return (monotonic + this.#slept) as Instant;
  }

  /**
   * All clocks at one moment. On a busy machine the process may be set aside between two readings; that would look like
   * a sleep and a wall step, which never were. So the monotonic clock is read before and after, and the nearest pair counts.
   */
  #read(): Reading {
    let best: Reading | null = null;
    for (let n = 0; n < tries; n++) {
      const before = this.#sources.monotonicMs();
      const wall = this.#sources.wallMs();
      const boot = this.#sources.bootMs?.() ?? null;
      const after = this.#sources.monotonicMs();
      const reading: Reading = { monotonic: after, wall, boot, spreadMs: after - before };
      if (reading.spreadMs <= togetherMs) return reading;
      if (best === null || reading.spreadMs < best.spreadMs) best = reading;
    }
    return best as Reading;
  }

  partings(): number {
    this.now();
    return this.#partings;
  }

  sleptMs(): number {
    return this.#slept;
  }

  wallMs(): number {
    return this.#sources.wallMs();
  }

  sleep(ms: number, o?: { signal?: AbortSignal }): Promise<void> {
    return sleepOn((delay, callback) => this.setTimer(delay, callback), ms, o?.signal);
  }

  setTimer(ms: number, callback: () => void, o?: { unref?: boolean }): Timer {
    checkMs("timer", ms);
    const timer = new SystemTimer(this, instantAfter(this.now(), ms), callback, o?.unref === true);
    if (ms !== Infinity) timer.arm(ms);
    return timer;
  }

  #calibrate({ monotonic, wall, boot, spreadMs }: Reading): void {
    // Never seen in one moment: judged at the next reading, which sees the same difference if there was one.
    if (spreadMs >= bootStepMs) return;
    const parted = wall - monotonic - this.#wallOffset;
    let newlySlept = 0;
    if (boot !== null) {
      const seen = boot - monotonic - this.#bootOffset;
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
