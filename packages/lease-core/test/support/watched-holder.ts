/**
 * A holder in a process of its own that looks at its status 200 times a second and hands over what it saw, with the wall clock of each look.
 * Arguments: URL, name of the lease, and optionally a statement that it runs in a stretch, again and again. Messages: { held } once it
 * holds; on any message it gives what it watched and stops.
 */
import { monitorEventLoopDelay } from "node:perf_hooks";
import { ClickHouseLogLevel, createClient } from "@clickhouse/client";
import { systemClock } from "@holdfast/deadline-http";
import { bind } from "@holdfast/deadline-http/clickhouse";
import { createLeaseKeeper } from "../../src/index.js";

export interface Watched {
  /** [wall ms, state] of each look. */
  readonly samples: readonly (readonly [number, string])[];
  /** Wall ms at which the quarantine began, by status().quarantinedUntilMs. */
  readonly quarantineBegan: number | null;
  readonly reason: string | null;
  readonly loopDelayMs: number;
  /** Code of the error that ended its stretches. */
  readonly failed: string | null;
}

const [, , url = "", name = "", statement] = process.argv;
const client = createClient({ url, log: { level: ClickHouseLogLevel.OFF } });
const keeper = createLeaseKeeper({
  client,
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
const catalog = bind(client);
const work = async (): Promise<void> => {
  if (statement === undefined) return;
  for (;;) {
    await keeper.exclusive(async () => {
      if (statement.startsWith("INSERT")) await catalog.command({ query: statement });
      else await (await catalog.query({ query: statement })).text();
    });
  }
};
const failed = work().then(
  () => null,
  (error: unknown) => (error as { code: string }).code,
);
process.once("message", () => void handOver());
async function handOver(): Promise<void> {
  clearInterval(looks);
  const reason = keeper.status().lastLoss?.reason ?? null;
  const watched: Watched = { samples, quarantineBegan, reason, loopDelayMs: delay.max / 1e6, failed: await failed };
  process.send?.(watched, () => void keeper.stop().finally(() => process.exit(0)));
}
