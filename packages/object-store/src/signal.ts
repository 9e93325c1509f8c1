import { errorCode, ObjectStoreError } from "./errors.js";

/**
 * The error with which a call ends whose signal was aborted: the signal's reason when it is an error with a string `code` (a
 * deadline's), else `CANCELED` with the reason as its cause.
 */
export function abortError(signal: AbortSignal): Error {
  const reason: unknown = signal.reason;
  if (reason instanceof Error && errorCode(reason) !== undefined) return reason;
  return new ObjectStoreError("CANCELED", "the caller aborted the object-store call", { cause: reason });
}

/** Throws {@link abortError} when the signal is already aborted. */
export function throwIfAborted(signal: AbortSignal): void {
  if (signal.aborted) throw abortError(signal);
}

/**
 * The promise's result, or {@link abortError} as soon as the signal is aborted; what the promise does later is ignored. Leaves no
 * listener on the signal. The work behind the promise goes on: whoever needs it stopped must stop it.
 */
export async function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  let onAbort = (): void => undefined;
  const aborted = new Promise<never>((_, reject) => {
    onAbort = () => reject(abortError(signal));
    if (signal.aborted) onAbort();
    else signal.addEventListener("abort", onAbort, { once: true });
  });
  // Both are watched by the race; one that loses must not become an unhandled rejection.
  work.catch(() => undefined);
  try {
    return await Promise.race([aborted, work]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}
