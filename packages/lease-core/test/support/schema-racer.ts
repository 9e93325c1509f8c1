/** One applier of the four-process race: claims when told, says how it ended, and releases when told. */
import { ClickHouseLogLevel, createClient } from "@clickhouse/client";
import { SchemaLease } from "../../src/index.js";

const client = createClient({ url: process.argv[2] ?? "", log: { level: ClickHouseLogLevel.OFF } });
let lease: SchemaLease | null = null;

async function handle(order: { go?: string; release?: true }): Promise<object> {
  if (order.release === true) {
    await lease?.release();
    return { released: true };
  }
  lease = new SchemaLease({ client, name: order.go ?? "", leaseMs: 60_000, settleMs: 1000 });
  const held = await lease.acquire();
  return { held, holder: lease.holder, stalled: (await lease.status()).stalledClaims };
}

process.on("message", (order: { go?: string; release?: true }) => {
  handle(order).then(
    (answer) => process.send?.(answer),
    (error: unknown) => process.send?.({ error: String(error) }),
  );
});
process.on("disconnect", () => process.exit(0));
// The first request opens the connection, so that the first round is as quick as the others.
void client.ping().then(() => process.send?.({ ready: true }));
