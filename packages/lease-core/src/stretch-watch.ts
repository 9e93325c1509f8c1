import type { Timer } from "@holdfast/deadline-http";
import type { KeeperCore } from "./keeper-core.js";

/** A stretch without a request in flight for this long waits for something else, or computes. Between two requests there is a turn or two. */
export const idleStretchMs = 20;

/** What a stretch does, as far as one can see from outside. */
interface Activity {
  /** Requests that wait under its scope now. */
  readonly waiting: number;
  /** Requests that have begun since the stretch did. */
  readonly begun: number;
}

/**
 * Tells once when a stretch holds the lease lock without using it: the keeper's own renewals are locked out meanwhile, so whatever else it
 * waits for eats into the lease. Watches only with the keeper's option `onWarning`. Seen by looking twice: no request in flight at either
 * look, and none begun between them.
 */
export function watchIdle(core: KeeperCore, name: string, activity: () => Activity): { end(): void } {
  const { onWarning, clock } = core.o;
  if (onWarning === null) return { end: () => undefined };
  let timer: Timer;
  const look = (before: Activity | null): void => {
    const now = activity();
    if (before !== null && before.waiting === 0 && now.waiting === 0 && now.begun === before.begun) {
      onWarning(
        `stretch "${name}" of lease "${core.o.name}" waited ${idleStretchMs} ms or more for something that is not a request of its own; ` +
          `exclusive() keeps the lease from being renewed: do such work in whileHeld() and enter exclusive() for the requests alone`,
      );
      return;
    }
    timer = clock.setTimer(idleStretchMs, () => look(now), { unref: true });
  };
  look(null);
  return { end: () => timer.cancel() };
}
