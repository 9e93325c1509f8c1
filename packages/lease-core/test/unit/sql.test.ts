/** Goal: the texts of the lease statements are what they are, whatever the settings. Method: golden texts; change them with care. */
import { createClient } from "@clickhouse/client";
import { expect, it } from "vitest";
import { ClickHouseLeaseTable, leaseConfig, type LeaseOptions } from "../../src/index.js";
import { leaseSql, qualified } from "../../src/sql.js";

const now = "toUInt64(toUnixTimestamp64Nano(now64(9)))";
const golden = {
  version: "SELECT version() AS version",
  exists: "EXISTS TABLE `db`.`t`",
  create:
    "CREATE TABLE IF NOT EXISTS `db`.`t` (name String, term UInt64, lease_id UUID, holder String, acquired_at_ns UInt64, expires_at_ns UInt64) ENGINE = MergeTree ORDER BY (name, term, lease_id)",
  head: `SELECT toString(term) AS head_term, toString(lease_id) AS id, any(holder) AS held_by, toString(min(expires_at_ns)) AS expires_ns, toString(${now}) AS now_ns FROM \`db\`.\`t\` WHERE name = {name:String} AND term = (SELECT term FROM \`db\`.\`t\` WHERE name = {name:String} ORDER BY term DESC LIMIT 1) GROUP BY term, lease_id ORDER BY lease_id DESC`,
  claim: `INSERT INTO \`db\`.\`t\` (name, term, lease_id, holder, acquired_at_ns, expires_at_ns) SELECT {name:String}, {term:UInt64}, {lease_id:UUID}, {holder:String}, stamped_ns, stamped_ns + {ttl_ns:UInt64} FROM (SELECT ${now} AS stamped_ns)`,
  term: "SELECT toString(lease_id) AS id, any(holder) AS held_by, toString(min(expires_at_ns)) AS expires_ns FROM `db`.`t` WHERE name = {name:String} AND term = {term:UInt64} GROUP BY lease_id ORDER BY lease_id DESC",
  tombstone: `INSERT INTO \`db\`.\`t\` (name, term, lease_id, holder, acquired_at_ns, expires_at_ns) SELECT {name:String}, {term:UInt64}, {lease_id:UUID}, {holder:String}, stamped_ns, stamped_ns FROM (SELECT ${now} AS stamped_ns)`,
  fence: `((SELECT count() = 1 AND any(hf_id) = {hf_lease:UUID} AND any(hf_until) > ${now} + {hf_margin_ns:UInt64} FROM (SELECT lease_id AS hf_id, min(expires_at_ns) AS hf_until FROM \`db\`.\`t\` WHERE name = {hf_name:String} AND term = (SELECT term FROM \`db\`.\`t\` WHERE name = {hf_name:String} ORDER BY term DESC LIMIT 1) GROUP BY lease_id)) = 1)`,
};

it("LS-09 the statements are the same over all settings of time, and over all quorums", () => {
  const client = createClient({ url: "http://127.0.0.1:1" });
  const settings: LeaseOptions[] = [
    {},
    { ttlMs: 3000, publishTimeoutMs: 1000 },
    { ttlMs: 3000, publishTimeoutMs: 1000, clockSkewMs: 1200 },
    { ttlMs: 30_000, clockSkewMs: 14_700 },
    { clockSkewMs: 7200 },
    { clockSkewMs: 1, topology: "cloud" },
    { clockSkewMs: 100, publishTimeoutMs: 200, topology: "cloud" },
  ];
  for (const lease of settings) {
    expect(
      new ClickHouseLeaseTable({ client, config: leaseConfig({ lease }), database: "db", table: "t" }).sql,
    ).toEqual(golden);
  }
  // A replicated table differs in its engine only, and not by quorum.
  for (const quorum of [2, 3, 5]) {
    const config = leaseConfig({ lease: { clockSkewMs: 100, topology: "replicated", quorum } });
    const { create, ...others } = new ClickHouseLeaseTable({ client, config, database: "db", table: "t" }).sql;
    expect(create).toBe(golden.create.replace("MergeTree", "ReplicatedMergeTree"));
    expect(others).toEqual(Object.fromEntries(Object.entries(golden).filter(([name]) => name !== "create")));
  }
});

it("CF-07 the fence's margin is publish timeout + skew in nanoseconds, its cap in seconds to the millisecond", () => {
  const client = createClient({ url: "http://127.0.0.1:1" });
  const config = leaseConfig({ lease: { publishTimeoutMs: 1250, clockSkewMs: 0 } });
  const table = new ClickHouseLeaseTable({ client, config });
  const fence = table.fence({ name: "a", term: 7n, leaseId: "00000000-0000-4000-8000-000000000001" });
  expect(fence.params).toEqual({ hf_name: "a", hf_lease: fence.leaseId, hf_margin_ns: "1250000000" });
  expect(fence.settings).toEqual({ max_execution_time: 1.25, timeout_overflow_mode: "throw" });
  const skewed = leaseConfig({ lease: { publishTimeoutMs: 1250, clockSkewMs: 100, topology: "cloud" } });
  const other = new ClickHouseLeaseTable({ client, config: skewed }).fence({
    name: "a",
    term: 7n,
    leaseId: fence.leaseId,
  });
  expect(other.params["hf_margin_ns"]).toBe("1350000000");
});

it("names are quoted", () => {
  expect(qualified("a`b\\c", undefined)).toBe("`a\\`b\\\\c`");
  expect(leaseSql(qualified("t", "d`"), false).head).toContain("FROM `d\\``.`t`");
});
