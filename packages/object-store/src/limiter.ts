import { ObjectStoreError } from "./errors.js";
import { abortError, onAbort, throwIfAborted } from "./signal.js";

/** Runs a function as soon as fewer than the limiter's number are running. */
export type Limiter = <T>(work: () => Promise<T>, signal: AbortSignal) => Promise<T>;

/**
 * At most `max` functions at once, the others in the order in which they came. Waiting ends with {@link abortError} when the
 * signal is aborted, and the function is then never called; once called, it holds its place until it has settled, aborted or not. `CONFIG_INVALID` when `max` is not a whole number
 * of at least 1.
 */
export function createLimiter(max: number): Limiter {
  if (!Number.isSafeInteger(max) || max < 1) {
    throw new ObjectStoreError("CONFIG_INVALID", `max is ${max}; it must be a whole number of at least 1`);
  }
  // Each takes the place that is given to it: `running` counts it from before it wakes up.
  const waiting = new Set<() => void>();
  let running = 0;

  const placeGiven = (signal: AbortSignal): Promise<void> =>
    new Promise((resolve, reject) => {
      const enter = () => {
        forget();
        resolve();
      };
      waiting.add(enter);
      const forget = onAbort(signal, () => {
        waiting.delete(enter);
        reject(abortError(signal));
      });
    });

  const givePlace = () => {
    const [next] = waiting;
    if (next === undefined) {
      running--;
      return;
    }
    waiting.delete(next);
    next();
  };

  return async (work, signal) => {
    throwIfAborted(signal);
    if (running < max) running++;
    else await placeGiven(signal);
    try {
      return await work();
    } finally {
      givePlace();
    }
  };
}
