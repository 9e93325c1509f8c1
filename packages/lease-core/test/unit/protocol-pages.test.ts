/** Goal: the protocol pages say what the code does. Method: numbers and conditions are read from the pages and compared with the code. */
import { readFile } from "node:fs/promises";
import { createClient } from "@clickhouse/client";
import { describe, expect, it } from "vitest";
import { leaseConfig, leaseDefaults, SchemaLease, type LossReason, type SchemaLeaseReport } from "../../src/index.js";
import { leastServerVersion } from "../../src/clickhouse-lease-table.js";
import { deadlineMarginMs, leastFenceMarginMs, leastRenewalWindowMs, narrowFenceMarginMs } from "../../src/config.js";
import { ownClaimsKept } from "../../src/own-claims.js";
import { longestTimerMs } from "../../src/keeper-loop.js";
import { leaseSql, qualified } from "../../src/sql.js";

/** The page with its line breaks and table padding folded, so that wording can be looked for. */
async function page(name: string): Promise<string> {
  const text = await readFile(new URL(`../../../../docs/protocols/${name}.md`, import.meta.url), "utf8");
  return text.replace(/\s+/g, " ");
}

describe("publisher-lease.md", () => {
  it("CF-09 states the formula, the rules, the defaults, what the skew must cover and what no local clock can see", async () => {
    const text = await page("publisher-lease");
    const { ttlMs, publishTimeoutMs, clockSkewMs, requestTimeoutMs } = leaseDefaults;
    const config = leaseConfig();
    expect(text).toContain(`deadline = sent + T − K − ${deadlineMarginMs} ms`);
    expect(config.holdMs).toBe(ttlMs - clockSkewMs - deadlineMarginMs);
    for (const [setting, value] of [
      ["lease.ttlMs", ttlMs],
      ["lease.publishTimeoutMs", publishTimeoutMs],
      ["lease.clockSkewMs", clockSkewMs],
      ["catalog.requestTimeoutMs", requestTimeoutMs],
      ["lease.startWaitMs", `T + P + K = ${config.startWaitMs}`],
    ]) {
      expect(text).toContain(`| \`${setting}\` | ${value} |`);
    }
    expect(text).toContain(`K ≤ T / 2 − ${deadlineMarginMs + leastRenewalWindowMs}`);
    expect(text).toContain(`T − P − K ≥ ${leastFenceMarginMs}; under ${narrowFenceMarginMs} a warning`);
    expect(text).toContain("R ≥ 2 × P");
    expect(text).toContain("n ≥ 2");
    expect(text).toContain(`at least ${2 * (deadlineMarginMs + leastRenewalWindowMs)} |`);
    const derived = `deadline ${config.holdMs} ms after \`sent\`, tick ${config.tickMs}, renewal due at ${config.renewAfterMs}, claim bound ${config.claimBoundMs}, greatest skew ${ttlMs / 2 - 300}, latch and count of timeouts ${config.latchAfterMs}`;
    expect(text).toContain(derived);
    expect(text).toContain(`(${config.holdMs - ttlMs / 2}) is a floor for the check, not a promise`);
    expect(text).toContain(`last ${ownClaimsKept} claims`);
    expect(text).toContain(`no timer runs longer than ${longestTimerMs} ms`);
    for (const part of [
      "greatest difference between any two",
      "steps of those clocks",
      "rate error of the holder's clock over one TTL",
    ]) {
      expect(text).toContain(part);
    }
    expect(text).toMatch(/What no local clock can see: a virtual machine paused/);
    expect(text.replace(/[`\s]/g, "")).toContain(
      leaseSql(qualified("holdfast_publisher_lease", undefined), false)
        .create.replace("IF NOT EXISTS ", "")
        .replace(/[`\s]/g, ""),
    );
  });
});

it("LK-27 the pages name every reason of a loss, and the README every option", async () => {
  const [protocol, readme] = [
    await page("publisher-lease"),
    await readFile(new URL("../../README.md", import.meta.url), "utf8"),
  ];
  const reasons: Record<LossReason, true> = {
    "renewal-timed-out": true,
    "deadline-passed": true,
    suspended: true,
    unconfirmed: true,
    "outcome-unknown": true,
    "taken-over": true,
    refused: true,
    released: true,
  };
  for (const reason of Object.keys(reasons)) {
    expect(protocol).toContain(`| \`${reason}\` |`);
    expect(readme).toContain(`\`${reason}\``);
  }
  const least = leastServerVersion.join(".");
  expect(protocol).toContain(`ClickHouse before ${least} is refused`);
  expect(readme).toContain(`ClickHouse ${least} or newer`);
  expect(protocol).toContain(`part by 20 ms or more`);
});

describe("schema-lease.md", () => {
  it("SL-15 states the guarantee with its two conditions, and the gaps", async () => {
    const text = await page("schema-lease");
    expect(text).toContain("Exactly one claimer holds when both are true");
    expect(text).toContain("every competing claim lands within the settle (500 ms) of its peers");
    expect(text).toContain("each claimer reads its own insert back");
    expect(text).toMatch(/Replicas whose reads lag.* by more than the settle: two can hold/);
    expect(text).toMatch(/A lease stronger than its reads: it is not linearisable, and it fences nothing/);
    for (const row of [
      "`leaseMs` | 300000",
      "`settleMs` | 500",
      "`pollMs` | 2000",
      "`waitMs` | 0",
      "`requestTimeoutMs` | 60000",
    ]) {
      expect(text).toContain(`| ${row} |`);
    }
    const { sql } = new SchemaLease({ client: createClient({ url: "http://127.0.0.1:1" }), name: "s" });
    expect(text.replace(/[`\s]/g, "")).toContain(sql.create.replace("IF NOT EXISTS ", "").replace(/[`\s]/g, ""));
  });

  it("SL-06 names every state of the report, as the README does", async () => {
    const readme = await readFile(new URL("../../README.md", import.meta.url), "utf8");
    const text = await page("schema-lease");
    const states: Record<SchemaLeaseReport["state"], true> = {
      "no-table": true,
      unclaimed: true,
      held: true,
      lapsed: true,
      released: true,
    };
    for (const state of Object.keys(states)) {
      expect(text).toContain(`| \`${state}\` |`);
      expect(readme).toContain(`\`${state}\``);
    }
  });
});
