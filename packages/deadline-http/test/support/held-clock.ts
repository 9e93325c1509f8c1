// A clock for a process that its test stops or blocks: its time stands still until the test makes a file, and goes on from some ms later.
// So a bound cannot run out before the process is where the test wants it, and has run out when it comes back, however fast the machine is.
import { existsSync } from "node:fs";
import { SystemClock } from "../../src/system-clock.js";

/** The product's clock, its timers included, over such a time. */
export function heldClock(file: string, jumpMs: number): SystemClock {
  const startedMs = performance.now();
  const startedWallMs = Date.now();
  let goesOnMs: number | null = null;
  const monotonicMs = (): number => {
    if (goesOnMs === null && existsSync(file)) goesOnMs = performance.now();
    return goesOnMs === null ? startedMs : startedMs + jumpMs + performance.now() - goesOnMs;
  };
  return new SystemClock({ monotonicMs, wallMs: () => startedWallMs + monotonicMs() - startedMs, bootMs: null });
}

/** Keeps the event loop until the file is there. */
export function blockUntil(file: string): void {
  const nothing = new Int32Array(new SharedArrayBuffer(4));
  while (!existsSync(file)) Atomics.wait(nothing, 0, 0, 5);
}
