// What the publisher lease costs and how soon it changes hands, on the embedded engine: a renewal, the fence beside the same
// INSERT without it, takeover after a stop and after SIGKILL. Reported, never judged.
import { loadavg } from "node:os";
import { ClickHouseLogLevel, createClient } from "@clickhouse/client";
import { startEmbeddedClickHouse } from "@holdfast/clickhouse-embedded";
import type { Benchmark } from "../benchmark.js";
import { fenceCost } from "./fence.js";
import { figuresOf, round, type Figures } from "./figures.js";
import { renewals } from "./renewal.js";
import { afterKill, afterStop, pollMs, ttlMs } from "./takeover.js";

const ms = (n: number): string => n.toFixed(1);
const line = (name: string, f: Figures): void =>
  console.log(
    `  ${name.padEnd(34)} ${String(f.count).padStart(5)}  median ${ms(f.median).padStart(7)}  p99 ${ms(f.p99).padStart(7)}  max ${ms(f.max).padStart(7)} ms`,
  );

export const lease: Benchmark = async ({ quick }) => {
  console.log(`lease: embedded ClickHouse; Node ${process.version}, load ${(loadavg()[0] ?? NaN).toFixed(1)}\n`);
  const server = await startEmbeddedClickHouse();
  const client = createClient({ url: server.url, log: { level: ClickHouseLogLevel.OFF } });
  try {
    const renewal = await renewals(client, Number(new URL(server.url).port), quick ? 100 : 1_000);
    const [took, floor] = [figuresOf(renewal.tookMs), figuresOf(renewal.selectMs)];
    line(`renewal (${renewal.requests} requests)`, took);
    line("  beside it: SELECT 1", floor);
    const fences = [];
    for (const rows of [1, 10_000]) {
      const cost = await fenceCost(client, rows, quick ? 60 : 400);
      const { plain, fenced, more } = cost;
      line(`INSERT … SELECT of ${rows} rows`, plain);
      line("  the same, fenced", fenced);
      console.log(
        `  ${"  difference of each pair".padEnd(34)} ${String(plain.count).padStart(5)}  median ${ms(more.median).padStart(7)}  95 % interval ${ms(more.low)} to ${ms(more.high)} ms`,
      );
      fences.push(cost);
    }
    const stopped = figuresOf(await afterStop(server.url, quick ? 5 : 30));
    line(`takeover after stop(), poll ${pollMs} ms`, stopped);
    const killed = figuresOf(await afterKill(server.url, quick ? 3 : 30));
    line(`takeover after SIGKILL, TTL ${ttlMs} ms`, killed);
    console.log(
      `\n  goals: after stop() at most 250 ms; after SIGKILL at most TTL + skew + 1 s = ${ttlMs + 1_000} ms, whichever the moment`,
    );
    const [single, many] = fences;
    return {
      renewalRequests: renewal.requests,
      renewalMsMedian: round(took.median),
      renewalMsP99: round(took.p99),
      selectMsMedian: round(floor.median),
      fenceMoreMsMedian: round(single?.more.median ?? NaN),
      fenceMoreMsLow: round(single?.more.low ?? NaN),
      fenceMoreMsHigh: round(single?.more.high ?? NaN),
      plainInsertMsMedian: round(single?.plain.median ?? NaN),
      fenceMoreMsMedian10k: round(many?.more.median ?? NaN),
      plainInsertMsMedian10k: round(many?.plain.median ?? NaN),
      takeoverAfterStopMsMedian: round(stopped.median),
      takeoverAfterStopMsMax: round(stopped.max),
      takeoverAfterKillMsMedian: round(killed.median),
      takeoverAfterKillMsMax: round(killed.max),
      takeoverAfterKillRuns: killed.count,
    };
  } finally {
    await client.close();
    await server.stop();
  }
};
