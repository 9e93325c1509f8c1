import { nowMs, pause } from "./system-clock.js";

/** Ends a hang, not a wait: how slow a machine may be is not for a test to say. */
const hangMs = 300_000;

/** Waits for a condition of a log, looking every 2 ms. Rejects with a plain Error when it does not come true in time. */
export async function until(condition: () => boolean, o: { readonly timeoutMs?: number } = {}): Promise<void> {
  const { timeoutMs = hangMs } = o;
  const start = nowMs();
  while (!condition()) {
    if (nowMs() - start > timeoutMs) {
      throw new Error(`The condition did not come true within ${timeoutMs} ms: ${condition.toString()}`);
    }
    await pause(2);
  }
}
