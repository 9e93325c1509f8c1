/** A holder in a process of its own: takes the lease, writes fenced rows as fast as it can, and says the first thing it sees of a loss. */
import { ClickHouseLogLevel, createClient } from "@clickhouse/client";
import { bind } from "@holdfast/deadline-http/clickhouse";
import { createLeaseKeeper, type Held } from "../../src/index.js";

const [, , url = "", name = ""] = process.argv;
const log = { level: ClickHouseLogLevel.OFF };
const keeper = createLeaseKeeper({
  client: createClient({ url, log, max_open_connections: 1 }),
  name,
  holder: "stopped one",
  lease: { ttlMs: 3000, publishTimeoutMs: 1000 },
});
const catalog = bind(createClient({ url, log }));

async function write(): Promise<void> {
  await keeper.exclusive(async (stretch) => {
    const { predicate, params, settings } = stretch.fence();
    await catalog.command({
      query: `INSERT INTO written SELECT 'stopped one', {lease:String} WHERE ${predicate}`,
      query_params: { ...params, lease: stretch.leaseId },
      clickhouse_settings: { ...settings },
    });
  });
}

await keeper.acquire();
process.send?.({ held: keeper.status().leaseId });
const seen = await keeper.whileHeld(async (held: Held) => {
  let signalled: string | null = null;
  held.signal.addEventListener("abort", () => (signalled = (held.signal.reason as { reason: string }).reason));
  const refused: string[] = [];
  while (!held.signal.aborted && refused.length === 0) {
    try {
      await write();
    } catch (error) {
      refused.push((error as { code: string }).code);
    }
  }
  return { check: held.check(), state: keeper.status().state, refused, signalled };
});
process.send?.(seen);
process.once("message", () => {
  void keeper.stop().then(() => process.exit(0));
});
