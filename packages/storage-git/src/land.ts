import type { Instant, Outcome } from "@holdfast/deadline-http";
import { RemoteUnavailableError } from "./errors.js";
import { start, step, type Landing, type LandingEvent } from "./landing.js";
import type { Settings } from "./options.js";
import type { PushEvent } from "./push.js";
import { rest, unavailable } from "./rest.js";

/** What a call may have done so far, for its result when it is cut short: `unknown` from the start of a push. */
export type Progress = { outcome: Outcome };

/** The effects of a landing. */
export type Effects = {
  push(): Promise<PushEvent>;
  /** Where the branch is: at the commit that was expected, at ours or beyond it, or elsewhere. `since`: when the budget for failures began. */
  look(since: Instant | null): Promise<"same" | "contains" | "moved">;
};

/**
 * Performs a {@link Landing} to its end. Rejects with the remote's refusal, with {@link RemoteUnavailableError}, or as the signal says; `progress` says what
 * may have happened then.
 */
export async function land(
  s: Settings,
  effects: Effects,
  o: { readonly signal: AbortSignal; readonly progress: Progress },
): Promise<"landed" | "moved"> {
  for (let state = start; ; state = step(state, await perform(s, state, effects, o), s.clock.now(), s.retryBudgetMs)) {
    if (state.s === "landed" || state.s === "moved") {
      o.progress.outcome = state.s === "landed" ? "unknown" : "refused";
      return state.s;
    }
    if (state.s !== "refused" && state.s !== "unavailable") continue;
    o.progress.outcome = state.outcome;
    throw state.s === "refused" ? state.error : unavailable(s, state.error, state.outcome);
  }
}

async function perform(
  s: Settings,
  state: Landing,
  effects: Effects,
  o: { readonly signal: AbortSignal; readonly progress: Progress },
): Promise<LandingEvent> {
  if (state.s === "push") {
    o.progress.outcome = "unknown";
    return effects.push();
  }
  if (state.s === "look") return look(state.firstFailureAt, effects, o.signal);
  if (state.s !== "pause") throw new Error(`a landing in ${state.s} has ended`);
  await rest(s, state.pauses, state.firstFailureAt, o.signal);
  return { e: "rested" };
}

async function look(since: Instant | null, effects: Effects, signal: AbortSignal): Promise<LandingEvent> {
  try {
    return { e: "seen", branch: await effects.look(since) };
  } catch (error) {
    if (signal.aborted || !(error instanceof Error)) throw error;
    const unwrapped = error instanceof RemoteUnavailableError && error.cause instanceof Error ? error.cause : error;
    return { e: "unseen", error: unwrapped };
  }
}
