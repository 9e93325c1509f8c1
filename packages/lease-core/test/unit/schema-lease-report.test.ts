/**
 * Goal: the report of a schema lease refuses what cannot work before anything is sent. Method: a client whose requests would fail the test.
 */
import type { ClickHouseClient } from "@clickhouse/client";
import { createClient } from "@clickhouse/client";
import { describe, expect, it } from "vitest";
import { readSchemaLease, type ReadSchemaLeaseOptions } from "../../src/index.js";

const client: ClickHouseClient = createClient({ url: "http://127.0.0.1:1" });

describe("settings", () => {
  it.each<[Partial<ReadSchemaLeaseOptions>, RegExp]>([
    [{ name: "" }, /name is empty/],
    [{ requestTimeoutMs: 0 }, /requestTimeoutMs is 0; it must be a whole number of milliseconds, above 0/],
    [{ requestTimeoutMs: Number.NaN }, /requestTimeoutMs is NaN/],
    [{ requestTimeoutMs: 1.5 }, /requestTimeoutMs is 1.5/],
  ])("CF-05 %o is refused with the value, and nothing is sent", async (settings, text) => {
    // A request would be refused by port 1, as SCHEMA_LEASE.
    const reading = readSchemaLease({ client, name: "s", ...settings });
    await expect(reading).rejects.toMatchObject({
      code: "CONFIG_INVALID",
      message: expect.stringMatching(text) as string,
    });
  });
});
