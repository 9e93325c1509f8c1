// A holder in a process of its own, which is killed: takes the lease that it is told, and says so, and each renewal.
import { ClickHouseLogLevel, createClient } from "@clickhouse/client";
import { acquireLease } from "@holdfast/lease-core";

/** What a holder is to take. */
export interface Order {
  readonly url: string;
  readonly name: string;
  readonly ttlMs: number;
  readonly publishTimeoutMs: number;
}

async function hold({ url, name, ttlMs, publishTimeoutMs }: Order): Promise<void> {
  const client = createClient({ url, log: { level: ClickHouseLogLevel.OFF } });
  const keeper = await acquireLease({ client, name, holder: "killed", ttlMs, lease: { publishTimeoutMs } });
  process.send?.("held");
  let told = 0;
  setInterval(() => {
    const { renewals } = keeper.status();
    if (renewals > told) process.send?.("renewed");
    told = renewals;
  }, 5);
}

process.on("disconnect", () => process.exit());
process.on("message", (order) => {
  hold(order as Order).catch((error: unknown) => {
    console.error(error);
    process.exit(1);
  });
});
process.send?.("ready");
