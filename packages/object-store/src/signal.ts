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

// One listener per signal, however many calls wait on it: a service's stop signal is shared by all its calls, and Node warns of a
// leak from the eleventh listener on.
const waitingOn = new WeakMap<AbortSignal, Set<() => void>>();

/**
 * Calls `callback` once when the signal is aborted (at once, before this returns, when it already is), unless the returned function
 * was called before. Keeps one listener on the signal while anybody waits, and none otherwise.
 */
export function onAbort(signal: AbortSignal, callback: () => void): () => void {
  if (signal.aborted) {
    callback();
    return () => undefined;
  }
  const waiting = waitingOn.get(signal) ?? startWaiting(signal);
  // A function of its own, so that one callback given twice is two entries.
  const entry = () => callback();
  waiting.add(entry);
  return () => {
    waiting.delete(entry);
    if (waiting.size > 0 || waitingOn.get(signal) !== waiting) return;
    waitingOn.delete(signal);
    signal.removeEventListener("abort", wake);
  };
}

function startWaiting(signal: AbortSignal): Set<() => void> {
  const waiting = new Set<() => void>();
  waitingOn.set(signal, waiting);
  signal.addEventListener("abort", wake, { once: true });
  return waiting;
}

function wake(event: Event): void {
  const signal = event.target as AbortSignal;
  const waiting = waitingOn.get(signal);
  waitingOn.delete(signal);
  for (const entry of waiting ?? []) entry();
}

/**
 * The promise's result, or {@link abortError} as soon as the signal is aborted; what the promise does later is ignored. Leaves no
 * listener on the signal. The work behind the promise goes on: whoever needs it stopped must stop it.
 */
export function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const forget = onAbort(signal, () => reject(abortError(signal)));
    work.then(
      (value) => {
        forget();
        resolve(value);
      },
      (error: unknown) => {
        forget();
        reject(error instanceof Error ? error : new Error(String(error), { cause: error }));
      },
    );
  });
}

/**
 * The items of a source, ending with {@link abortError} as soon as the signal is aborted, even while the source never answers. A
 * source left early, by the signal or by the consumer, is told to close but not waited for.
 */
export async function* eachUntilAborted<T>(
  source: AsyncIterable<T>,
  signal: AbortSignal,
): AsyncGenerator<T, void, undefined> {
  throwIfAborted(signal);
  const items = source[Symbol.asyncIterator]();
  let finished = false;
  try {
    for (;;) {
      const next = await untilAborted(items.next(), signal);
      finished = next.done === true;
      if (next.done === true) return;
      yield next.value;
    }
  } finally {
    if (!finished) void closeQuietly(items);
  }
}

async function closeQuietly(items: AsyncIterator<unknown>): Promise<void> {
  try {
    await items.return?.();
  } catch {
    // It was left because of another error or for good; how its closing fails changes nothing for anybody.
  }
}
