import { DeadlineExceededError, type Bound, type Clock } from "@holdfast/deadline-http";

/**
 * Runs `work` with a signal that is aborted after `bound.ms`, or when `outer` is, and settles by then even when the work does
 * not: a store that ignores its signal must not keep a stop waiting.
 */
export async function bounded<T>(
  clock: Clock,
  bound: Bound,
  outer: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  outer.throwIfAborted();
  const controller = new AbortController();
  const onAbort = (): void => controller.abort(outer.reason);
  outer.addEventListener("abort", onAbort, { once: true });
  const timer = clock.setTimer(bound.ms, () => {
    controller.abort(new DeadlineExceededError(bound, { outcome: "unknown", note: "the store did not answer" }));
  });
  const { signal } = controller;
  try {
    return await new Promise<T>((resolve, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
      work(signal).then(resolve, reject);
    });
  } finally {
    timer.cancel();
    outer.removeEventListener("abort", onAbort);
  }
}

/** `signal.aborted`, asked anew: the compiler takes the property for one that does not change. */
export function isAborted(signal: AbortSignal): boolean {
  return signal.aborted;
}
