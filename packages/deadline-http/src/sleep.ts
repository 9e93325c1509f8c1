import type { Timer } from "./clock.js";
import { CanceledError } from "./errors.js";

/**
 * A sleep over a timer function, shared by the system and the virtual clock. Leaves no listener on the signal.
 * @internal
 */
export function sleepOn(
  setTimer: (ms: number, callback: () => void) => Timer,
  ms: number,
  signal: AbortSignal | undefined,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const canceled = (): CanceledError =>
      new CanceledError({ outcome: "not-sent", note: "it ended a sleep", cause: signal?.reason });
    if (signal?.aborted) {
      reject(canceled());
      return;
    }
    const onAbort = (): void => {
      timer.cancel();
      reject(canceled());
    };
    const timer = setTimer(ms, () => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    });
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}
