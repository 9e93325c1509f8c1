import { hostname } from "node:os";
import { systemClock, type Clock } from "@holdfast/deadline-http";
import { ClickHouseLeaseTable } from "./clickhouse-lease-table.js";
import { holderName, leaseConfig, leaseName, type LeaseConfig, type LeaseOptions } from "./config.js";
import { LeaseError } from "./errors.js";
import { LeaseKeeper } from "./keeper.js";
import { KeeperCore } from "./keeper-core.js";
import type { LeaseKeeperOptions } from "./keeper-options.js";
import type { LeaseTable } from "./lease-table.js";
import { randomHex, systemRandom, type Random } from "./prng.js";

const ownName = (random: Random) => `${hostname()}:${process.pid}:${randomHex(random, 8)}`;

function tableOf(o: LeaseKeeperOptions, config: LeaseConfig, clock: Clock): LeaseTable {
  if (o.leaseTable !== undefined) return o.leaseTable;
  if (o.client === undefined) {
    throw new LeaseError("CONFIG_INVALID", "client is missing; give the keeper a ClickHouse client (or a leaseTable)");
  }
  return new ClickHouseLeaseTable({ client: o.client, config, database: o.database, table: o.table, clock });
}

/**
 * Makes a keeper that holds nothing yet. No request is sent.
 * @throws LeaseError CONFIG_INVALID with the numbers and paths of the settings that do not fit.
 */
export function createLeaseKeeper(o: LeaseKeeperOptions): LeaseKeeper {
  const lease: LeaseOptions = { ...o.lease, ...(o.ttlMs === undefined ? {} : { ttlMs: o.ttlMs }) };
  const config = leaseConfig({
    lease,
    ...(o.requestTimeoutMs === undefined ? {} : { catalog: { requestTimeoutMs: o.requestTimeoutMs } }),
  });
  const warn = o.onWarning ?? ((text: string) => process.emitWarning(text, "HoldfastWarning"));
  for (const warning of config.warnings) warn(warning);
  const clock = o.clock ?? systemClock;
  const random = o.random ?? systemRandom;
  const core = new KeeperCore({
    table: tableOf(o, config, clock),
    name: leaseName(o.name),
    holder: holderName("lease.holder", o.holder ?? ownName(random)),
    config,
    clock,
    random,
    reacquire: o.reacquire ?? "no",
    createTable: o.createTable ?? true,
    onWarning: o.onWarning ?? null,
    ownTable: o.leaseTable === undefined,
  });
  return LeaseKeeper.over(core);
}

/**
 * Takes a lease and keeps it: {@link createLeaseKeeper} and `acquire()` in one call. Stop the keeper when done.
 * @throws what `acquire` throws; the keeper is stopped then.
 */
export async function acquireLease(
  o: LeaseKeeperOptions & { readonly waitMs?: number; readonly signal?: AbortSignal },
): Promise<LeaseKeeper> {
  const keeper = createLeaseKeeper(o);
  try {
    await keeper.acquire({
      ...(o.waitMs === undefined ? {} : { waitMs: o.waitMs }),
      ...(o.signal === undefined ? {} : { signal: o.signal }),
    });
    return keeper;
  } catch (error) {
    await keeper.stop();
    throw error;
  }
}
