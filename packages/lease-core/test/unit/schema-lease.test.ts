/**
 * Goal: how a schema claim is decided, and when it may be. Method: the real SchemaLease and HTTP client against the scripted server, which
 * answers in real time; only what needs no time to be exact is here, the rest is in the scripted and live tiers.
 */
import { hostname } from "node:os";
import { createClient } from "@clickhouse/client";
import { describe, expect, it } from "vitest";
import { SchemaLease } from "../../src/index.js";
import { seeded } from "../support/keepers.js";

const client = createClient({ url: "http://127.0.0.1:1" });

describe("holder", () => {
  it("SL-05 is hostname/8 random hex digits, another one for each instance, or the one that is given", () => {
    const [one, two] = [new SchemaLease({ client, name: "s" }), new SchemaLease({ client, name: "s" })];
    for (const { holder } of [one, two]) {
      expect(holder.startsWith(`${hostname()}/`)).toBe(true);
      expect(holder.slice(hostname().length + 1)).toMatch(/^[0-9a-f]{8}$/);
    }
    expect(one.holder).not.toBe(two.holder);
    expect(new SchemaLease({ client, name: "s", holder: "pod-7/1a2b3c4d" }).holder).toBe("pod-7/1a2b3c4d");
    const repeated = [1, 1].map((seed) => new SchemaLease({ client, name: "s", random: seeded(seed) }).holder);
    expect(repeated[0]).toBe(repeated[1]);
  });
});

describe("settings", () => {
  it.each([
    [{ leaseMs: 999 }, /leaseMs is 999.*at least 1000/],
    [{ leaseMs: 1000.5 }, /leaseMs is 1000.5; it must be a whole number/],
    [{ settleMs: Infinity }, /settleMs is Infinity/],
    [{ pollMs: 0 }, /pollMs is 0/],
    [{ name: "" }, /name is empty/],
    [{ holder: "" }, /holder is 0 bytes/],
    [{ holder: "x".repeat(257) }, /holder is 257 bytes/],
    [{ settleMs: -1 }, /settleMs is -1/],
    [{ pollMs: Number.NaN }, /pollMs is NaN/],
    [{ requestTimeoutMs: 0 }, /requestTimeoutMs is 0/],
    [{ leaseMs: 1000, settleMs: 1000 }, /leaseMs is 1000; it must be above settleMs/],
  ])("CF-05 %o is refused with the numbers", (settings, text) => {
    const make = () => new SchemaLease({ client, name: "s", ...settings });
    expect(make).toThrow(text);
    expect(make).toThrow(/^\[CONFIG_INVALID\]/);
  });

  it.each([
    { leaseMs: 1000 },
    { leaseMs: 1001, settleMs: 1000 },
    { settleMs: 0 },
    { pollMs: 1 },
    { holder: "x".repeat(256) },
  ])("%o, the other side of the bound, is accepted", (settings) => {
    expect(() => new SchemaLease({ client, name: "s", ...settings })).not.toThrow();
  });

  it.each([Number.NaN, -1, Infinity])("CF-08 a wait of %s is refused before anything is sent", async (waitMs) => {
    const lease = new SchemaLease({ client, name: "s" });
    await expect(lease.acquire({ waitMs })).rejects.toMatchObject({ code: "CONFIG_INVALID" });
  });

  it("the statements are the same for all settings", () => {
    const [one, two] = [
      new SchemaLease({ client, name: "s", table: "t", database: "d" }),
      new SchemaLease({ client, name: "other", table: "t", database: "d", leaseMs: 1000, settleMs: 10, holder: "x" }),
    ];
    expect(one.sql).toEqual(two.sql);
    expect(one.sql).toEqual({
      create:
        "CREATE TABLE IF NOT EXISTS `d`.`t` (lock_name String, holder String, acquired_at_ms UInt64, expires_at_ms UInt64, released UInt8) ENGINE = ReplacingMergeTree(acquired_at_ms) ORDER BY lock_name TTL toDateTime(intDiv(expires_at_ms, 1000)) + INTERVAL 7 DAY",
      read: "SELECT holder, toString(acquired_at_ms) AS acquired_ms, toString(expires_at_ms) AS expires_ms, released FROM `d`.`t` FINAL WHERE lock_name = {name:String}",
      write:
        "INSERT INTO `d`.`t` (lock_name, holder, acquired_at_ms, expires_at_ms, released) SELECT {name:String}, {holder:String}, {acquired_ms:UInt64}, {expires_ms:UInt64}, {released:UInt8}",
    });
  });
});
