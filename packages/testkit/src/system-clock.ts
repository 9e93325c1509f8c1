// The one file of this package where ambient time is allowed: the instruments live in real time by nature.

/**
 * Now, in ms since the epoch with fractions, from the monotonic clock: `performance.timeOrigin + performance.now()`.
 * Within a process it never goes back; logs of several processes on one machine compare as well as the wall clock stood
 * when each of them began.
 */
export const nowMs = (): number => performance.timeOrigin + performance.now();

/** Runs `fn` once, `ms` from now (at once in the next turn for 0 and less); the answer cancels it. */
export function after(ms: number, fn: () => void): () => void {
  const timer = setTimeout(fn, Math.min(Math.max(ms, 0), 2 ** 31 - 1));
  return () => clearTimeout(timer);
}

/** Resolves `ms` from now. */
export const pause = (ms: number): Promise<void> => new Promise((resolve) => void after(ms, resolve));

/** Resolves after so many turns of the event loop, each with a look at the sockets. */
export async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve));
}
