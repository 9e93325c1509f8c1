// @ts-check
// One runner of the job. Any number of these may run; the lease lets one of them work.
import { ClickHouseLogLevel, createClient } from "@clickhouse/client";
import { bind } from "@holdfast/deadline-http/clickhouse";
import { createLeaseKeeper } from "@holdfast/lease-core";
import { setTimeout as sleep } from "node:timers/promises";

const [, , url = "", name = ""] = process.argv;
const say = (/** @type {string} */ text) => console.log(`   ${name}: ${text}`);

// The lease has a connection of its own: nothing queues before a renewal. The job's requests go through bind(), so that they end by the
// lease deadline.
const log = { level: ClickHouseLogLevel.OFF };
const leaseClient = createClient({ url, log, max_open_connections: 1 });
const jobClient = createClient({ url, log });
const catalog = bind(jobClient);
const keeper = createLeaseKeeper({
  client: leaseClient,
  name: "nightly-report",
  holder: name,
  ttlMs: 4000,
  lease: { publishTimeoutMs: 1500 },
});

const stopping = new AbortController();
process.once("SIGTERM", () => stopping.abort());
process.once("disconnect", () => process.exit(1)); // the example itself has ended

/** One run of the job: some work, then its result, recorded only if this runner still has the lease when the server writes it. */
async function runOnce(/** @type {AbortSignal} */ lost) {
  await sleep(300, undefined, { signal: AbortSignal.any([lost, stopping.signal]) }).catch(() => undefined);
  if (lost.aborted || stopping.signal.aborted) return;
  await keeper.exclusive(async (stretch) => {
    const { predicate, params, settings } = stretch.fence();
    try {
      await catalog.command({
        query: `INSERT INTO runs (n, runner) SELECT (SELECT max(n) FROM runs) + 1, {runner:String} WHERE ${predicate}`,
        query_params: { ...params, runner: name },
        clickhouse_settings: { ...settings },
      });
    } catch (/** @type {any} */ error) {
      // It may still land. So nobody may have the lease, not even we, until it cannot any more.
      if (error.outcome === "unknown") stretch.quarantine(error);
      throw error;
    }
  });
}

/** A run that failed: without the lease it is the next runner's; anything else is tried again. */
const failed = (/** @type {Error} */ error) => say(`a run failed: ${error.message}`);

try {
  while (!stopping.signal.aborted) {
    await keeper.acquire({ waitMs: 0 }).catch(async (error) => {
      if (error.code !== "LEASE_HELD" && error.code !== "LEASE_QUARANTINED") throw error;
      say(error.heldBy ? `waits, ${error.heldBy} has the lease` : "waits, a statement of its own may still land");
      process.send?.("waits");
      await keeper.acquire({ waitMs: 3_600_000, signal: stopping.signal });
    });
    say(`has the lease (term ${keeper.status().term ?? "?"})`);
    await keeper.whileHeld(async ({ signal }) => {
      while (!signal.aborted && !stopping.signal.aborted) await runOnce(signal).catch(failed);
      if (signal.aborted) say(`lost the lease: ${signal.reason.message}`);
    });
  }
} catch (/** @type {any} */ error) {
  if (error.code !== "CANCELED") {
    say(`failed: ${String(error)}`);
    process.exitCode = 1;
  }
}
await keeper.stop(); // gives the lease back: the next runner starts at once
say("stopped");
await Promise.all([leaseClient.close(), jobClient.close()]);
process.disconnect();
