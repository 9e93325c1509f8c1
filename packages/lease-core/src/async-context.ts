import { AsyncLocalStorage } from "node:async_hooks";
import { detached } from "@holdfast/deadline-http";
import type { Stretch } from "./keeper-options.js";

/** A stretch and its keeper. */
export interface Running {
  readonly core: { readonly o: { readonly name: string } };
  readonly stretch: Stretch;
  open: boolean;
}

/** A job of some keeper's `whileHeld`. */
export interface Job {
  running: boolean;
}

/** What code runs in. */
interface Context {
  readonly stretch?: Running;
  /** One inside the other, whichever keepers they are of; the innermost comes last. */
  readonly jobs?: readonly Job[];
}

/** One storage for both: on Node 20 each costs every promise of the process. */
const contexts = new AsyncLocalStorage<Context>();

/** The stretch and the jobs that the calling code was begun in; any of them may have ended. */
export function contextHere(): Context | undefined {
  return contexts.getStore();
}

/** Runs `fn` in this stretch or these jobs, and in the other that it is in already. */
export function runIn<T>(part: Context, fn: () => T): T {
  return contexts.run({ ...contexts.getStore(), ...part }, fn);
}

/** Begins `fn` at once, outside every stretch, job and scope of the calling code. `fn` must not throw. */
export function outside(fn: () => void): void {
  const begun = detached(() => {
    contexts.run({}, fn);
    return Promise.resolve();
  });
  // What the scope of the calling code says of it, once it has been begun.
  begun.catch(() => undefined);
}
