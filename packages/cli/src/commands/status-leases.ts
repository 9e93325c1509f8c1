import type { ClickHouseClient } from "@clickhouse/client";
import type { Clock } from "@holdfast/deadline-http";
import {
  ClickHouseLeaseTable,
  defaultLeaseTable,
  leaseConfig,
  type LeaseOptions,
  type SchemaLeaseReport,
} from "@holdfast/lease-core";
import { cell, duration } from "../format.js";

/** The newest term of the publisher lease. */
export interface LeaseHead {
  readonly term: bigint;
  readonly holder: string;
  readonly expiresAtNs: bigint;
}

/** The newest term of a catalog's publisher lease, null where it was never taken, and what the server's clock says. */
export async function readPublisherLease(
  { client, bounded }: { client: ClickHouseClient; bounded: ClickHouseClient },
  o: { database: string; catalog: string; lease: LeaseOptions; clock: Clock },
): Promise<{ lease: LeaseHead | null; serverNowNs: bigint }> {
  const { database, catalog, lease, clock } = o;
  const answer = await bounded.query({
    query:
      "SELECT toString(count()) AS tables, toString(toUnixTimestamp64Nano(now64(9))) AS now " +
      "FROM system.tables WHERE database = {database:String} AND name = {table:String}",
    query_params: { database, table: defaultLeaseTable },
    format: "JSONEachRow",
  });
  const there = await answer.json<{ tables: string; now: string }>();
  const serverNowNs = BigInt(there[0]?.now ?? "0");
  if (there[0]?.tables !== "1") return { lease: null, serverNowNs };
  const table = new ClickHouseLeaseTable({ client, database, config: leaseConfig({ lease }), clock });
  const { term, leases, nowNs } = await table.readHead(catalog);
  const [head] = leases; // of several ids at one term the first counts
  if (head === undefined) return { lease: null, serverNowNs };
  return { lease: { term, holder: head.holder, expiresAtNs: head.expiresAtNs }, serverNowNs: nowNs };
}

/** Of a holder on a line. Leases of ours write up to 256 bytes; a name that is cut could not be compared with another. */
const holderWidth = 256;

/** Who may publish, for a person. */
export function publisherLeaseText(lease: LeaseHead | null, nowNs: bigint): string {
  if (lease === null) return "never taken";
  const term = `term ${lease.term.toString()}`;
  const leftMs = Number((lease.expiresAtNs - nowNs) / 1_000_000n);
  const holder = cell(lease.holder, holderWidth);
  if (leftMs > 0) return `held by ${holder} for another ${duration(leftMs)} unless renewed (${term})`;
  return `free for ${duration(-leftMs)}; last held by ${holder} (${term})`;
}

/** Who may change the tables, for a person. */
export function schemaLeaseText(report: SchemaLeaseReport): string {
  if (report.state === "no-table") return "free; the table does not exist";
  if (report.state === "unclaimed") return "free; no claim is recorded";
  const holder = cell(report.holder, holderWidth);
  const { readAtMs } = report;
  switch (report.state) {
    case "held":
      return `held by ${holder} for another ${duration(report.expiresAtMs - readAtMs)} unless released`;
    case "lapsed":
      return `free for ${duration(readAtMs - report.expiresAtMs)}; lapsed, and not released by ${holder}`;
    case "released":
      return `free for ${duration(readAtMs - report.releasedAtMs)}; released by ${holder}`;
  }
}
