// Timers of proxy and server that fire when the test says so.
import { onTestFinished, vi } from "vitest";

/** From now on, and for this test, timers of this process stand still until the test moves them on. */
export function ownTimers(): typeof vi {
  onTestFinished(() => void vi.useRealTimers());
  return vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
}

/** Waits for a condition turn by turn: `until` waits with a timer. */
export async function inTurns(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setImmediate(resolve));
}
