// A stand-in for an HTTP client under the virtual clock: each request is one runCall whose attempts do what a script says.
import { runCall, type Attempt, type Failure } from "../../src/call.js";
import type { Bound } from "../../src/errors.js";
import type { VirtualClock } from "../../src/testing/index.js";

export type Step =
  | { readonly kind: "answer"; readonly afterMs?: number }
  | { readonly kind: "silent" }
  /** Waits for a socket so long, then goes on as the next step says. */
  | { readonly kind: "queued"; readonly forMs: number; readonly then: Step }
  | { readonly kind: "refused"; readonly afterMs?: number }
  | { readonly kind: "reset"; readonly afterMs?: number }
  | { readonly kind: "fault"; readonly afterMs?: number };

export interface Sent {
  readonly atMs: number;
  readonly attempt: number;
  readonly msLeft: number;
}

const failures: Record<string, Omit<Failure, "text">> = {
  refused: { outcome: "not-sent", retry: true },
  reset: { outcome: "unknown", retry: true },
  fault: { outcome: "refused", retry: true },
};

/** Told what the transport of a request does, as it does it. */
export interface Transport {
  /** An attempt begins: it may wait for a socket from now on. */
  begins?(): void;
  /** It has one, and the request goes out with so many ms left. */
  sends?(msLeft: number): void;
  /** What was sent came to an end by itself: answered, or broken like this. */
  ends?(as: Step["kind"]): void;
  /** The attempt failed, and the call decides what follows. */
  fails?(): void;
}

export interface RequestOptions {
  readonly clock: VirtualClock;
  readonly script?: readonly Step[];
  readonly log?: Sent[];
  readonly signal?: AbortSignal;
  readonly limit?: Bound;
  readonly maxAttempts?: number;
  readonly transport?: Transport;
}

/** One request; steps of the script are used attempt by attempt, the last one repeats. */
export function request(o: RequestOptions): Promise<string> {
  const script = o.script ?? [{ kind: "answer" }];
  return runCall({
    clock: o.clock,
    limit: o.limit ?? null,
    signal: o.signal ?? null,
    maxAttempts: o.maxAttempts ?? 3,
    attempt: (attempt) => {
      o.transport?.begins?.();
      return play(o, attempt, script[Math.min(attempt.number, script.length) - 1]!);
    },
    classify: (error) => {
      o.transport?.fails?.();
      return { text: String(error), ...failures[(error as Error).message]! };
    },
  });
}

async function play(o: RequestOptions, attempt: Attempt, step: Step): Promise<string> {
  if (step.kind === "queued") {
    await o.clock.sleep(step.forMs, { signal: attempt.signal });
    return play(o, attempt, step.then);
  }
  if (step.kind === "refused") {
    await o.clock.sleep(step.afterMs ?? 0, { signal: attempt.signal });
    throw new Error("refused");
  }
  let msLeft: number;
  try {
    msLeft = attempt.start();
  } catch (error) {
    attempt.fail(error);
    throw error;
  }
  attempt.markSent();
  o.log?.push({ atMs: o.clock.now(), attempt: attempt.number, msLeft });
  o.transport?.sends?.(msLeft);
  if (step.kind === "silent") return new Promise(() => undefined);
  await o.clock.sleep(step.afterMs ?? 0, { signal: attempt.signal });
  o.transport?.ends?.(step.kind);
  if (step.kind === "answer") return "answer";
  throw new Error(step.kind);
}

/** What became of a promise, and when, by the virtual clock. */
export interface Settled {
  value?: unknown;
  error?: { code?: string; outcome?: string; timedOut?: boolean; message: string; bound?: Bound };
  atMs?: number;
}

export function settled(clock: { now(): number }, promise: Promise<unknown>): Settled {
  const result: Settled = {};
  promise.then(
    (value) => Object.assign(result, { value, atMs: clock.now() }),
    (error: unknown) => Object.assign(result, { error, atMs: clock.now() }),
  );
  return result;
}
