import { detached, withDeadline } from "@holdfast/deadline-http";
import { contextHere, runIn, type Running } from "./async-context.js";
import { leaseDeadlineName, leaseKnobs } from "./config.js";
import { LeaseError } from "./errors.js";
import { holds } from "./keeper-step.js";
import type { KeeperCore } from "./keeper-core.js";
import type { Stretch } from "./keeper-options.js";
import { watchIdle } from "./stretch-watch.js";

export type { Stretch };

/** The open stretch that the calling code runs in, if any. */
function current(): Running | undefined {
  const found = contextHere()?.stretch;
  return found?.open === true ? found : undefined;
}

/** Refuses what would wait for ever: asking for the lock from inside a stretch. */
export function refuseInStretch(what: string): void {
  const inside = current();
  if (inside === undefined) return;
  throw new LeaseError(
    "NESTED_LEASE",
    `${what} was called inside exclusive() of lease "${inside.core.o.name}"; leave the stretch first`,
  );
}

/** Runs `fn` as a stretch of this keeper: joins the one it is in, or takes the lock and sets deadline and hook. */
export async function runStretch<T>(core: KeeperCore, fn: (stretch: Stretch) => Promise<T>, name: string): Promise<T> {
  const inside = current();
  if (inside?.core === core) return fn(inside.stretch);
  if (inside !== undefined) {
    throw new LeaseError(
      "NESTED_LEASE",
      `exclusive() of lease "${core.o.name}" was called inside exclusive() of lease "${inside.core.o.name}"; one stretch cannot hold two leases, as waiting for the second would run the first down`,
    );
  }
  const ticket = core.lock.request();
  // A renewal begun here may outlive us (we had a deadline of our own): the lock stays with it.
  const letGo = (): void => core.afterRenewal(() => ticket.release());
  try {
    // A caller with a deadline waits for the lock no longer than that; leaving the queue is then our business.
    await detached(() => ticket.ready);
    return await underDeadline(core, fn, name, letGo);
  } finally {
    letGo();
  }
}

async function underDeadline<T>(
  core: KeeperCore,
  fn: (stretch: Stretch) => Promise<T>,
  name: string,
  letGo: () => void,
): Promise<T> {
  const { leaseId } = core.require();
  // One that waits for something else must not keep the keeper from claiming, or stopping, for ever. Once its lease is quarantined it sends
  // nothing more, and what it has sent is over before the quarantine is.
  const watching = core.onLost((loss) => {
    if (loss.leaseId === leaseId && core.state.phase.s === "quarantined") letGo();
  });
  const timeoutsEverBefore = core.state.timeoutsEver;
  const context: Running = { core, stretch: stretchOf(core, leaseId), open: true };
  let timedOut: string | null = null;
  let begun = 0;
  try {
    return await withDeadline(
      () => {
        const state = core.feed();
        return holds(state, leaseId) ? state.phase.lease.deadline : "gone";
      },
      async (scope) => {
        const watch = watchIdle(core, name, () => ({ waiting: scope.waiting, begun }));
        try {
          return await runIn({ stretch: context }, () => fn(context.stretch));
        } finally {
          watch.end();
          const bound = scope.timedOut;
          if (bound !== null) timedOut = `a request under the lease ended by its bound: ${bound.name}`;
        }
      },
      {
        name: leaseDeadlineName,
        knobs: leaseKnobs(core.o.config),
        clock: core.o.clock,
        beforeRequest: () => {
          begun += 1;
          return core.renewWhenDue(leaseId);
        },
      },
    );
  } finally {
    context.open = false;
    watching();
    core.feed({ e: "stretch-ended", leaseIdBefore: leaseId, timeoutsEverBefore, timedOut });
  }
}

function stretchOf(core: KeeperCore, leaseId: string): Stretch {
  return {
    leaseId,
    fence() {
      const state = core.feed();
      if (!holds(state, leaseId)) throw core.notHeld();
      return core.fence(state.phase.lease);
    },
    quarantine(cause) {
      core.quarantine(leaseId, cause);
    },
  };
}
