/**
 * A holder in a process of its own that writes fenced rows through a forwarder: one whose statement is 8 MB long, then short ones, and
 * another long one on a message.
 * Arguments: URL for the lease, URL for the writes, name. Messages: { held }, then what it saw of its loss.
 */
import { ClickHouseLogLevel, createClient } from "@clickhouse/client";
import { bind } from "@holdfast/deadline-http/clickhouse";
import { createLeaseKeeper } from "../../src/index.js";

const [, , url = "", writesUrl = "", name = ""] = process.argv;
const log = { level: ClickHouseLogLevel.OFF };
const keeper = createLeaseKeeper({
  client: createClient({ url, log }),
  name,
  holder: "writer",
  lease: { ttlMs: 3000, publishTimeoutMs: 1000 },
});
const catalog = bind(createClient({ url: writesUrl, log }));
const padding = `/* ${"x".repeat(8_000_000)} */`;

function write(padded: boolean): Promise<void> {
  return keeper.exclusive(async (stretch) => {
    const { predicate, params, settings } = stretch.fence();
    await catalog.command({
      query: `INSERT INTO written SELECT ${padded ? "'long'" : "'writer'"}, {lease:String} ${padded ? padding : ""} WHERE ${predicate}`,
      query_params: { ...params, lease: stretch.leaseId },
      clickhouse_settings: { ...settings, max_query_size: "20000000" },
    });
  });
}

let long = false;
process.on("message", (message: { long?: true; stop?: true }) => {
  if (message.long) long = true;
  if (message.stop) void keeper.stop().finally(() => process.exit(0));
});
await keeper.acquire();
process.send?.({ held: keeper.status().leaseId });
await keeper.whileHeld(async (held) => {
  let signalledAt: number | null = null;
  held.signal.addEventListener("abort", () => (signalledAt = Date.now()));
  const refused: string[] = [];
  // That such a statement is well-formed, and adds its row while the lease is held.
  await write(true);
  while (refused.length === 0) {
    try {
      await write(long);
      await new Promise((resolve) => setTimeout(resolve, 20));
    } catch (error) {
      refused.push((error as { code: string }).code);
    }
  }
  // The next write, and all after it, are refused at once.
  for (let i = 0; i < 3; i++)
    await write(false).catch((error: unknown) => refused.push((error as { code: string }).code));
  const reason = (held.signal.reason as { reason?: string } | undefined)?.reason ?? null;
  process.send?.({ check: held.check(), refused, signalledAt, reason });
});
