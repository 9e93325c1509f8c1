import { CanceledError } from "@holdfast/deadline-http";

/** Throws CANCELED when the caller's signal is aborted. */
export function throwIfCanceled(signal: AbortSignal | undefined): void {
  if (signal?.aborted === true) throw new CanceledError({ outcome: "not-sent", cause: signal.reason });
}
