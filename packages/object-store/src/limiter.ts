import { abortError, throwIfAborted } from "./signal.js";

/** Runs a function as soon as fewer than the limiter's number are running. */
export type Limiter = <T>(work: () => Promise<T>, signal: AbortSignal) => Promise<T>;

/**
 * At most `max` functions at once, the others in the order in which they came. Waiting ends with {@link abortError} when the
 * signal is aborted, and the function is then never called; once called, it holds its place until it has settled, aborted or not.
 */
export function createLimiter(max: number): Limiter {
  const waiting = new Set<() => void>();
  let running = 0;

  const place = (signal: AbortSignal): Promise<void> =>
    new Promise((resolve, reject) => {
      const enter = () => {
        waiting.delete(enter);
        signal.removeEventListener("abort", leave);
        running++;
        resolve();
      };
      const leave = () => {
        waiting.delete(enter);
        reject(abortError(signal));
      };
      if (running < max) {
        enter();
        return;
      }
      waiting.add(enter);
      signal.addEventListener("abort", leave, { once: true });
    });

  return async (work, signal) => {
    throwIfAborted(signal);
    await place(signal);
    try {
      return await work();
    } finally {
      running--;
      for (const enter of waiting) {
        enter();
        break;
      }
    }
  };
}
