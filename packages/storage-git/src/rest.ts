import type { Instant } from "@holdfast/deadline-http";
import { abortError } from "@holdfast/object-store";
import { RemoteUnavailableError } from "./errors.js";
import type { Exchanged } from "./git.js";
import type { Settings } from "./options.js";
import type { Ended } from "./process.js";

/** The longest pause between attempts, and the `retryAfterMs` of the error. */
const pauseMsMax = 5_000;

/** Waits before attempt `n + 1`: up to 100 ms, doubling to 5 s, spread evenly, and no longer than what is left of the budget. */
export async function rest(s: Settings, n: number, firstFailureAt: Instant, signal: AbortSignal): Promise<void> {
  const most = Math.min(pauseMsMax, 100 * 2 ** (n - 1));
  const left = Math.max(0, firstFailureAt + s.retryBudgetMs - s.clock.now());
  try {
    await s.clock.sleep(Math.min(s.random() * most, left), { signal });
  } catch (error) {
    throw signal.aborted ? abortError(signal) : error;
  }
}

/** What is reported when the budget is used up. */
export function unavailable(
  s: Settings,
  error: Error,
  outcome: RemoteUnavailableError["outcome"],
): RemoteUnavailableError {
  const landed = outcome === "unknown" ? "; the push may have landed" : "";
  return new RemoteUnavailableError(
    `the remote kept failing for ${s.retryBudgetMs} ms (retryBudgetMs): ${error.message}${landed}; try again later`,
    { outcome, retryAfterMs: pauseMsMax, cause: error },
  );
}

/**
 * Does an exchange that changes nothing, again after each transient failure until the budget is used up, which counts from `since`, or else from the
 * first failure; what it printed. Rejects with
 * {@link RemoteUnavailableError}, or with the error of a failure that trying again does not help.
 */
export async function exchangeAgain(
  s: Settings,
  signal: AbortSignal,
  attempt: () => Promise<Exchanged>,
  since: Instant | null,
): Promise<Ended> {
  let firstFailureAt = since;
  for (let n = 1; ; n++) {
    const { out, failure } = await attempt();
    if (failure === undefined) return out;
    if (failure.kind !== "transient" && failure.kind !== "unreached") throw failure.error;
    firstFailureAt ??= s.clock.now();
    if (s.clock.now() - firstFailureAt >= s.retryBudgetMs) throw unavailable(s, failure.error, "not-sent");
    await rest(s, n, firstFailureAt, signal);
  }
}
