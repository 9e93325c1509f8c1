/**
 * Goal: what the report of a schema lease asks, when it ends, and what it makes of each answer. Method: the real function and HTTP client
 * against the scripted server, whose log is the oracle, by a virtual clock.
 */
import type { ClickHouseClient } from "@clickhouse/client";
import { within } from "@holdfast/deadline-http";
import { until } from "@holdfast-private/tests-machine";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { readSchemaLease, type ReadSchemaLeaseOptions } from "../../src/index.js";
import { SteppingClock } from "../support/clocks.js";
import { failureOf } from "../support/keepers.js";
import { quietClient, ScriptedClickHouse } from "../support/scripted-clickhouse.js";

const noon = 1_750_000_000_000;
let clock: SteppingClock;
let server: ScriptedClickHouse;
let client: ClickHouseClient;

beforeEach(async () => {
  clock = new SteppingClock();
  clock.wall = noon;
  server = await ScriptedClickHouse.start(clock);
  client = quietClient(server.url);
});
afterEach(async () => {
  await client.close();
  await server.refuse();
});

const read = (o: Partial<ReadSchemaLeaseOptions> = {}) => readSchemaLease({ client, name: "s", clock, ...o });
const row = (o: { expiresMs: number; released?: number }) =>
  server.schemaRows.push({ holder: "pod-7/1a2b3c4d", acquiredMs: noon - 5000, released: 0, ...o });

describe("states", () => {
  it("no row is unclaimed, found by one statement that names the lease and writes nothing", async () => {
    expect(await read({ name: "frames", database: "d", table: "t" })).toEqual({ state: "unclaimed", readAtMs: noon });
    expect(server.arrivals.map(({ operation }) => operation)).toEqual(["schema-read"]);
    expect(server.arrivals[0]).toMatchObject({ params: { name: "frames" } });
    expect(server.arrivals[0]!.query).toContain("FROM `d`.`t` FINAL WHERE lock_name = {name:String}");
    await read();
    expect(server.arrivals[1]!.query).toContain("FROM `holdfast_schema_lease` FINAL");
  });

  it("SL-06 SL-13 a claim is held up to the very millisecond of its expiry and lapsed after it, with holder and stamp of its row", async () => {
    const claim = { holder: "pod-7/1a2b3c4d", claimedAtMs: noon - 5000, expiresAtMs: noon };
    row({ expiresMs: noon });
    expect(await read()).toEqual({ state: "held", readAtMs: noon, ...claim });
    // Of a clock with a finer resolution: the millisecond is not over.
    clock.wall = noon + 0.9;
    expect(await read()).toEqual({ state: "held", readAtMs: noon, ...claim });
    clock.wall = noon + 1;
    expect(await read()).toEqual({ state: "lapsed", readAtMs: noon + 1, ...claim });
  });

  it("SL-06 a released claim is released, whatever its times say", async () => {
    row({ expiresMs: noon + 60_000, released: 1 });
    expect(await read()).toEqual({
      state: "released",
      readAtMs: noon,
      holder: "pod-7/1a2b3c4d",
      claimedAtMs: noon - 5000,
      releasedAtMs: noon + 60_000,
    });
  });

  it("a table that is not there is a state; a database that is not there, or any other refusal, is SCHEMA_LEASE", async () => {
    server.script = () => ({ error: { status: 404, code: 60 } });
    expect(await read()).toEqual({ state: "no-table", readAtMs: noon });
    for (const code of [81, 497, 62]) {
      server.script = () => ({ error: { status: 400, code } });
      const error = await failureOf(read());
      expect(error).toMatchObject({ code: "SCHEMA_LEASE", outcome: "refused", timedOut: false });
      expect(error.message).toMatch(/^\[SCHEMA_LEASE\] schema lease "s": could not read the lease: /);
      expect(error.message).toContain(`code ${code}`);
    }
  });
});

describe("bounds", () => {
  /** Lets time pass to one millisecond before the bound, where it must still run, and then to the bound. */
  const endsAt = async (ms: number, reading: Promise<unknown>) => {
    const state = { over: false };
    const over = () => void (state.over = true);
    reading.then(over, over);
    await until("the read has arrived", () => server.of("schema-read").length === 1);
    await clock.advance(ms - 1);
    expect(state.over).toBe(false);
    await clock.advance(1);
    await clock.advance(0); // the request, the scope around it and the reading end in turns of their own
    expect(state.over).toBe(true);
    return failureOf(reading);
  };

  it("a read that stalls ends at requestTimeoutMs, as a SCHEMA_LEASE that timed out and names the setting", async () => {
    server.script = () => ({ stall: true });
    const error = await endsAt(700, read({ requestTimeoutMs: 700 }));
    expect(error).toMatchObject({ code: "SCHEMA_LEASE", timedOut: true });
    expect(error.message).toContain("requestTimeoutMs = 700");
  });

  it("a deadline around it binds as well", async () => {
    server.script = () => ({ stall: true });
    const reading = within(300, () => read(), { name: "the caller's", knobs: { "caller.ms": 300 }, clock });
    const error = await endsAt(300, reading);
    expect(error).toMatchObject({ timedOut: true });
    expect(error.message).toContain("caller.ms = 300");
  });

  it("its signal ends it with CANCELED, before it is sent and while it waits", async () => {
    expect(await failureOf(read({ signal: AbortSignal.abort() }))).toMatchObject({ code: "CANCELED" });
    expect(server.arrivals).toEqual([]);
    const abort = new AbortController();
    server.script = () => {
      abort.abort();
      return { stall: true };
    };
    expect(await failureOf(read({ signal: abort.signal }))).toMatchObject({ code: "CANCELED" });
  });
});
