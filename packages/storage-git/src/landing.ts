import type { Instant, Outcome } from "@holdfast/deadline-http";

/**
 * How one commit comes to stand on its branch. The push is a compare-and-swap: it names the commit that the branch was last seen at, and the remote
 * refuses it when the branch is anywhere else. What every state relies on: the commit is never made again, so that however often it is pushed it
 * can land once; and a verdict that the branch moved is only given after a look that did not find the commit in it, which is final, since the remote
 * refuses the same push from then on.
 *
 * - `push`: the commit is to be pushed. Entered at the start and after a pause. Left by what the push answered.
 * - `look`: the push was refused, or failed in a way that trying again does not help: the branch is to be looked at, because an answer to an earlier
 *   push may have been lost. `refusal` is what is reported if the branch has not moved.
 * - `pause`: the remote failed in a way that may pass: after a rest, the same push is made again. Entered only while the budget, which counts from the
 *   first failure, is not used up.
 * - `landed`, `moved`, `refused`, `unavailable`: the ends. `moved`: another's commit is there, and ours is not and never will be. `refused`: the branch is where
 *   it was, and the remote does not take the commit. `unavailable`: the budget is used up. `outcome` of both says whether it may still land.
 */
export type Landing =
  | ({ readonly s: "push" } & Failures)
  | ({ readonly s: "look"; readonly refusal: Error; readonly passing: boolean } & Failures)
  | ({ readonly s: "pause"; readonly firstFailureAt: Instant } & Failures)
  | { readonly s: "landed" }
  | { readonly s: "moved" }
  | { readonly s: "refused"; readonly error: Error; readonly outcome: Outcome }
  | { readonly s: "unavailable"; readonly error: Error; readonly outcome: Outcome };

/** What is known of failures so far. */
type Failures = {
  readonly firstFailureAt: Instant | null;
  /** How many pauses there were. */
  readonly pauses: number;
  /** The gravest thing that a push so far may have done: it only rises. */
  readonly outcome: Outcome;
};

/** What a push, a look or a pause came to. */
export type LandingEvent =
  | { readonly e: "pushed" }
  /** The remote answered that it does not take the ref. `passing`: for a reason that goes by, such as a lock. */
  | { readonly e: "refused"; readonly error: Error; readonly passing: boolean }
  /** No answer, or an error of the remote. `reached`: it may have had the push. */
  | { readonly e: "failed"; readonly error: Error; readonly transient: boolean; readonly reached: boolean }
  | { readonly e: "seen"; readonly branch: "same" | "contains" | "moved" }
  /** The look failed, transient failures of it retried until the budget was used up. */
  | { readonly e: "unseen"; readonly error: Error }
  | { readonly e: "rested" };

/** Where every landing begins. */
export const start: Landing = { s: "push", firstFailureAt: null, pauses: 0, outcome: "not-sent" };

/** The next state. An event that the state does not wait for is a defect and throws. */
export function step(state: Landing, event: LandingEvent, now: Instant, budgetMs: number): Landing {
  if (state.s === "push") return afterPush(state, event, now, budgetMs);
  if (state.s === "look") return afterLook(state, event, now, budgetMs);
  if (state.s === "pause" && event.e === "rested") {
    const { firstFailureAt, pauses, outcome } = state;
    return { s: "push", firstFailureAt, pauses, outcome };
  }
  throw new Error(`a landing in ${state.s} waits for nothing like ${event.e}`);
}

function afterPush(state: Landing & { s: "push" }, event: LandingEvent, now: Instant, budgetMs: number): Landing {
  if (event.e === "pushed") return { s: "landed" };
  if (event.e === "refused") return { ...state, s: "look", refusal: event.error, passing: event.passing };
  if (event.e !== "failed") throw new Error(`a push does not end with ${event.e}`);
  const after = { ...state, outcome: event.reached ? ("unknown" as const) : state.outcome };
  if (event.transient) return rest(after, event.error, now, budgetMs);
  return { ...after, firstFailureAt: after.firstFailureAt ?? now, s: "look", refusal: event.error, passing: false };
}

function afterLook(state: Landing & { s: "look" }, event: LandingEvent, now: Instant, budgetMs: number): Landing {
  const { refusal, passing } = state;
  if (event.e === "unseen") return { s: "unavailable", error: event.error, outcome: "unknown" };
  if (event.e !== "seen") throw new Error(`a look does not end with ${event.e}`);
  // Before anything else: what landed is a success, whatever was answered about it.
  if (event.branch === "contains") return { s: "landed" };
  if (event.branch === "moved") return { s: "moved" };
  if (passing) return rest(state, refusal, now, budgetMs);
  // An earlier push without an answer may still be on its way, and the branch is where it wants it.
  return { s: "refused", error: refusal, outcome: state.outcome === "unknown" ? "unknown" : "refused" };
}

function rest(state: Failures, error: Error, now: Instant, budgetMs: number): Landing {
  const firstFailureAt = state.firstFailureAt ?? now;
  const { outcome } = state;
  if (now - firstFailureAt >= budgetMs) return { s: "unavailable", error, outcome };
  return { s: "pause", firstFailureAt, pauses: state.pauses + 1, outcome };
}
