import { onAbort } from "@holdfast/object-store";

/**
 * Settles as `work` does, or rejects with the signal's reason when the signal is aborted first. `work` then continues, and how it ends is
 * ignored: for work that cannot be ended by a signal, but ends by what its caller does next.
 */
export async function abortable<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  let forget = (): void => undefined;
  const aborted = new Promise<never>((_, reject) => {
    forget = onAbort(signal, () => reject(new Error("aborted", { cause: signal.reason })));
  });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    forget();
  }
}
