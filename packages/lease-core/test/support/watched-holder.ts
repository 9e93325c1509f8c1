/**
 * A holder in a process of its own that looks at its status 200 times a second and hands over what it saw, with the wall clock before each
 * look. Argument: `Orders` as JSON. Messages: { held } once it holds; { block } blocks its loop until a file of that name is there, and is
 * answered { blocking } first; on { stop } it gives `Watched` and ends.
 */
import { existsSync } from "node:fs";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { ClickHouseLogLevel, createClient } from "@clickhouse/client";
import { systemClock } from "@holdfast/deadline-http";
import { bind } from "@holdfast/deadline-http/clickhouse";
import { createLeaseKeeper } from "../../src/index.js";

export interface Orders {
  readonly url: string;
  readonly name: string;
  readonly clockSkewMs: number;
  /** Run in a stretch, again and again. */
  readonly statement?: string | undefined;
}

/** Wall ms just before the status was asked for, its state and its lease id. */
export type Look = readonly [at: number, state: string, leaseId: string | null];

export interface Watched {
  readonly looks: readonly Look[];
  /** The first act after a block of the loop. */
  readonly firstAct: Look | null;
  /** Wall ms at which the quarantine began, by status().quarantinedUntilMs. */
  readonly quarantineBegan: number | null;
  /** Of the loss, and wall ms at which the job's signal told it. */
  readonly reason: string | null;
  readonly signalledAt: number | null;
  readonly loopDelayMs: number;
  /** Code of the error that ended its stretches. */
  readonly failed: string | null;
}

export const ttlMs = 3000;

const orders = JSON.parse(process.argv[2] ?? "") as Orders;
const { url, name, clockSkewMs, statement } = orders;
const client = createClient({ url, log: { level: ClickHouseLogLevel.OFF } });
const keeper = createLeaseKeeper({
  client,
  name,
  holder: "watched",
  lease: { ttlMs, publishTimeoutMs: 1000, clockSkewMs },
  requestTimeoutMs: 20_000,
});
await keeper.acquire();
const delay = monitorEventLoopDelay({ resolution: 5 });
delay.enable();
const looks: Look[] = [];
let firstAct: Look | null = null;
let quarantineBegan: number | null = null;
function look(): Look {
  // Before: "held" was true at some instant from here on, so a loop that is held up between the two accuses nobody.
  const at = Date.now();
  const status = keeper.status();
  const seen: Look = [at, status.state, status.leaseId ?? null];
  looks.push(seen);
  if (status.quarantinedUntilMs !== undefined && quarantineBegan === null) {
    quarantineBegan = status.quarantinedUntilMs - ttlMs + (Date.now() - systemClock.now());
  }
  return seen;
}
const looking = setInterval(look, 5);
let signalledAt: number | null = null;
void keeper.whileHeld(
  ({ signal }) =>
    new Promise<void>((resolve) => {
      signal.addEventListener("abort", () => {
        signalledAt = Date.now();
        resolve();
      });
    }),
);
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

function block(file: string): void {
  const never = new Int32Array(new SharedArrayBuffer(4));
  while (!existsSync(file)) Atomics.wait(never, 0, 0, 5);
  firstAct = look();
}

async function handOver(): Promise<void> {
  clearInterval(looking);
  const reason = keeper.status().lastLoss?.reason ?? null;
  const loopDelayMs = delay.max / 1e6;
  const watched: Watched = {
    looks,
    firstAct,
    quarantineBegan,
    reason,
    signalledAt,
    loopDelayMs,
    failed: await failed,
  };
  process.send?.(watched, () => void keeper.stop().finally(() => process.exit(0)));
}

process.on("message", ({ block: file, stop }: { block?: string; stop?: true }) => {
  if (file !== undefined) process.send?.({ blocking: true }, () => block(file));
  if (stop === true) void handOver();
});
process.on("disconnect", () => process.exit());
