/**
 * A holder in a process of its own that looks at its status 200 times a second and hands over what it saw, with the wall clock of each look.
 * Arguments: URL, name of the lease. Messages: { held } once it holds; on any message it gives { samples, lost } and stops.
 */
import { monitorEventLoopDelay } from "node:perf_hooks";
import { ClickHouseLogLevel, createClient } from "@clickhouse/client";
import { systemClock } from "@holdfast/deadline-http";
import { createLeaseKeeper } from "../../src/index.js";

export interface Watched {
  /** [wall ms, state] of each look. */
  readonly samples: readonly (readonly [number, string])[];
  /** Wall ms at which the quarantine began, by status().quarantinedUntilMs. */
  readonly quarantineBegan: number | null;
  readonly reason: string | null;
  readonly loopDelayMs: number;
}

const [, , url = "", name = ""] = process.argv;
const keeper = createLeaseKeeper({
  client: createClient({ url, log: { level: ClickHouseLogLevel.OFF } }),
  name,
  holder: "watched",
  lease: { ttlMs: 3000, publishTimeoutMs: 1000 },
  requestTimeoutMs: 20_000,
});
await keeper.acquire();
const delay = monitorEventLoopDelay({ resolution: 5 });
delay.enable();
const samples: [number, string][] = [];
let quarantineBegan: number | null = null;
const looks = setInterval(() => {
  const status = keeper.status();
  const wall = Date.now();
  samples.push([wall, status.state]);
  if (status.quarantinedUntilMs !== undefined && quarantineBegan === null) {
    quarantineBegan = status.quarantinedUntilMs - 3000 + (wall - systemClock.now());
  }
}, 5);
process.send?.({ held: keeper.status().leaseId });
process.once("message", () => {
  clearInterval(looks);
  const reason = keeper.status().lastLoss?.reason ?? null;
  const watched: Watched = { samples, quarantineBegan, reason, loopDelayMs: delay.max / 1e6 };
  process.send?.(watched, () => void keeper.stop().finally(() => process.exit(0)));
});
