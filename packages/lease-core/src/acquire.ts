import {
  CanceledError,
  DeadlineExceededError,
  instantAfter,
  remainingMs,
  within,
  type Instant,
} from "@holdfast/deadline-http";
import type { ClaimResult } from "./coordinator.js";
import { factsOf, LeaseError } from "./errors.js";
import type { KeeperCore } from "./keeper-core.js";

type Attempt =
  | ClaimResult
  | { readonly result: "quarantined"; readonly until: Instant }
  | { readonly result: "already" }
  /** Held, and being given back: nobody may use it any more, and it cannot be claimed yet. */
  | { readonly result: "leaving" };

/**
 * The first claim, with a wait. It looks again every acquirePollMs while another holds the lease, so it outlives a crashed predecessor.
 * A claim that timed out is tried again inside the wait; when its INSERT may have landed, the quarantine is waited out, once even past
 * the wait, with time for a claim after it. A second such timeout, or any other error, ends it.
 */
export async function acquireWithin(core: KeeperCore, waitMs: number, signal: AbortSignal | undefined): Promise<void> {
  const { clock } = core.o;
  // Made once: on Node 20 each such signal leaves something behind in those it is made of, and there is a look every acquirePollMs.
  const stopping = core.stopping.signal;
  const ended = signal === undefined ? stopping : AbortSignal.any([signal, stopping]);
  const wait = { ends: instantAfter(clock.recheck(), waitMs), stretched: false };
  for (;;) {
    refuseIfEnded(core, signal);
    const attempt = await inTurn(core, signal);
    if (attempt.result === "already" || attempt.result === "held") return;
    const now = clock.recheck();
    const resume = resumeAt(core, attempt, waitMs, wait, now);
    if (resume === null) throw giveUp(core, attempt, waitMs, now);
    const ms = Math.max(0, Math.min(resume - now, remainingMs()));
    await pause(core, ms, ended);
  }
}

/** One attempt. The signal or deadline of the caller frees it; a claim that is under way goes on, as its outcome has to be known. */
async function inTurn(core: KeeperCore, signal: AbortSignal | undefined): Promise<Attempt> {
  const caller = { waits: true };
  const attempt = (): Promise<Attempt> => {
    // Told that it has no lease, it does not expect the keeper to take one. Nobody hears this.
    if (!caller.waits) throw core.notHeld();
    return attemptOnce(core);
  };
  try {
    const name = "waiting for the lease";
    return await within(Infinity, () => core.locked(attempt), { name, clock: core.o.clock, signal });
  } finally {
    caller.waits = false;
  }
}

/** Between two looks. The end of the keeper ends it as well; the next look then refuses. */
async function pause(core: KeeperCore, ms: number, ended: AbortSignal): Promise<void> {
  try {
    await core.o.clock.sleep(ms, { signal: ended });
  } catch (error) {
    core.refuseStopped();
    throw error;
  }
}

function refuseIfEnded(core: KeeperCore, signal: AbortSignal | undefined): void {
  const note = `it ended a wait for lease "${core.o.name}"`;
  if (signal?.aborted) throw new CanceledError({ outcome: "not-sent", note, cause: signal.reason });
  if (remainingMs() > 0) return;
  throw new DeadlineExceededError(
    { name: "the caller's own deadline", ms: 0, knobs: {} },
    { outcome: "not-sent", note },
  );
}

async function attemptOnce(core: KeeperCore): Promise<Attempt> {
  const { phase } = core.feed();
  if (phase.s === "held") return { result: phase.lease.leaseId === core.leaving ? "leaving" : "already" };
  core.refuseStopped();
  if (phase.s === "failed") throw core.notHeld();
  if (phase.s === "quarantined") return { result: "quarantined", until: phase.until };
  return core.claim(false);
}

function resumeAt(
  core: KeeperCore,
  attempt: Exclude<Attempt, { result: "already" | "held" }>,
  waitMs: number,
  wait: { ends: Instant; stretched: boolean },
  now: Instant,
): Instant | null {
  const { acquirePollMs, claimBoundMs } = core.o.config;
  if (attempt.result === "leaving") {
    const next = instantAfter(now, acquirePollMs);
    return now >= wait.ends ? null : next < wait.ends ? next : wait.ends;
  }
  if (attempt.result === "refused") {
    // A contest needs the random pause to be decided; a plain refusal cost the table one read.
    if (now >= wait.ends) return null;
    const { phase } = core.state;
    const allowed = attempt.contested && "nextClaimAt" in phase ? phase.nextClaimAt : null;
    const next = allowed ?? instantAfter(now, acquirePollMs);
    return next < wait.ends ? next : wait.ends;
  }
  if (waitMs === 0 || (attempt.result === "failed" && !attempt.timedOut)) return null;
  const { phase } = core.state;
  if (phase.s !== "quarantined") return now < wait.ends ? now : null;
  const enough = instantAfter(phase.until, 3 * claimBoundMs + acquirePollMs);
  // A quarantine that was there before is waited out inside the wait only.
  if (attempt.result === "failed" && !wait.stretched && enough > wait.ends) {
    wait.ends = enough;
    wait.stretched = true;
  }
  return phase.until < wait.ends ? phase.until : null;
}

function giveUp(
  core: KeeperCore,
  attempt: Exclude<Attempt, { result: "already" | "held" }>,
  waitMs: number,
  now: Instant,
): unknown {
  const { name } = core.o;
  if (attempt.result === "refused") {
    const { error } = attempt;
    return new LeaseError(
      error.code,
      `${withoutCode(error.message)}; gave up after a wait of ${waitMs} ms (lease.startWaitMs)`,
      {
        cause: error,
        outcome: "refused",
        contested: error.contested,
        ownClaims: error.ownClaims,
        ...(error.heldBy === undefined ? {} : { heldBy: error.heldBy }),
        ...(error.remainingMs === undefined ? {} : { remainingMs: error.remainingMs }),
      },
    );
  }
  if (attempt.result === "leaving") return core.notHeld();
  const { phase } = core.state;
  const cause = attempt.result === "failed" ? attempt.error : undefined;
  // A quarantine that stood in the way may have ended since, in this very turn: it is still the reason.
  const until = phase.s === "quarantined" ? phase.until : attempt.result === "quarantined" ? attempt.until : null;
  if (until === null) return cause;
  const leftMs = Math.max(0, Math.ceil(until - now));
  return new LeaseError(
    "LEASE_QUARANTINED",
    `lease "${name}" could not be taken in a wait of ${waitMs} ms (lease.startWaitMs): ${factsOf(cause ?? core.state.lastError).message}; ` +
      `that claim may still land, so nothing is claimed for another ${leftMs} ms, which leaves no time to try again`,
    { cause, outcome: "unknown" },
  );
}

const withoutCode = (message: string) => message.replace(/^\[[A-Z_]+\] /, "");
