/**
 * Goal: every decision of the schema lease, and what it writes. Method: the real SchemaLease and HTTP client against the scripted server,
 * with a clock whose wall time the test sets; the server's log and rows are the oracle.
 */
import { monitorEventLoopDelay } from "node:perf_hooks";
import type { ClickHouseClient } from "@clickhouse/client";
import { systemClock, type Clock } from "@holdfast/deadline-http";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { SchemaLease, type SchemaLeaseOptions } from "../../src/index.js";
import { failureOf } from "../support/keepers.js";
import { quietClient, ScriptedClickHouse, type SchemaRow } from "../support/scripted-clickhouse.js";

let server: ScriptedClickHouse;
let client: ClickHouseClient;

beforeEach(async () => {
  server = await ScriptedClickHouse.start();
  client = quietClient(server.url);
});
afterEach(async () => {
  await client.close();
  await server.stop();
});

/**
 * The machine's clock, except for the wall time; and no time seems to pass between a free read and the answer to its claim, so that a
 * machine that is slow decides nothing. SL-12, which is about that time, uses the machine's clock as it is.
 */
function walled(wallMs: () => number): Clock {
  const start = systemClock.now();
  return {
    now: () => systemClock.now(),
    recheck: () => start,
    partings: () => systemClock.partings(),
    wallMs,
    sleep: (ms, o) => systemClock.sleep(ms, o),
    setTimer: (ms, callback, o) => systemClock.setTimer(ms, callback, o),
  };
}
const lease = (o: Partial<SchemaLeaseOptions> = {}) =>
  new SchemaLease({ client, name: "s", clock: walled(() => systemClock.wallMs()), ...o });
const rows = (released?: number) =>
  server.schemaRows.filter((row) => released === undefined || row.released === released);

describe("claim", () => {
  it("SL-01 free read, claim, 500 ms, read again: and held", async () => {
    const one = lease();
    expect(await one.acquire()).toBe(true);
    expect(server.arrivals.map(({ operation }) => operation)).toEqual(["schema-read", "schema-write", "schema-read"]);
    expect(server.arrivals[2]!.at - server.arrivals[1]!.at).toBeGreaterThanOrEqual(495);
    expect(server.arrivals[1]!.settings).toMatchObject({ async_insert: "0", insert_deduplicate: "0" });
    expect(await one.acquire()).toBe(true);
    expect(server.of("schema-write")).toHaveLength(1);
  });

  it("SL-01 of two claims 100 ms apart the later one wins and the earlier goes back to waiting", async () => {
    // Both find it free: the later one has read before the earlier one has written.
    server.script = ({ operation }) =>
      operation === "schema-read" && server.of("schema-read").length === 1 ? { delayMs: 100 } : undefined;
    const [late, early] = [
      lease({ holder: "late" }),
      new SchemaLease({ client: quietClient(server.url), name: "s", holder: "early" }),
    ];
    const results = await Promise.all([late.acquire(), early.acquire()]);
    expect(server.schemaRows.map((row) => row.holder)).toEqual(["early", "late"]);
    expect(results).toEqual([true, false]);
  });

  const own = (row: SchemaRow): SchemaRow => row;
  it.each<[string, boolean, boolean, ((row: SchemaRow) => SchemaRow) | null]>([
    ["no row", true, false, null],
    ["an older claim of another", true, false, (row) => ({ ...row, holder: "x", acquiredMs: row.acquiredMs - 1 })],
    ["our own claim", true, true, own],
    ["a later claim of another", false, false, (row) => ({ ...row, holder: "x", acquiredMs: row.acquiredMs + 1 })],
    ["a claim of another in the same millisecond, later by name", false, false, (row) => ({ ...row, holder: "~" })],
    ["a claim of another in the same millisecond, earlier by name", false, false, (row) => ({ ...row, holder: "!" })],
  ])("SL-09 a re-read that shows %s: held %s, under strictReadback %s", async (_, held, strict, shows) => {
    for (const strictReadback of [false, true]) {
      server.schemaRows.length = 0;
      server.arrivals.length = 0;
      server.script = ({ operation }) => {
        if (operation === "schema-read" && server.of("schema-read").length === 2) {
          const row = server.schemaRows.pop()!;
          if (shows !== null) server.schemaRows.push(shows(row));
        }
        return undefined;
      };
      expect(await lease({ strictReadback, settleMs: 200 }).acquire()).toBe(strictReadback ? strict : held);
    }
  });

  it("SL-14 claims are compared by the millisecond that is stored, whatever the clock's resolution", async () => {
    const one = lease({ clock: walled(() => 1_750_000_000_000.789), settleMs: 200, strictReadback: true });
    expect(await one.acquire()).toBe(true);
    expect(server.schemaRows).toMatchObject([{ acquiredMs: 1_750_000_000_000, expiresMs: 1_750_000_300_000 }]);
  });

  it("a slow clock still stamps above the row that it replaces", async () => {
    server.schemaRows.push({ holder: "fast", acquiredMs: 2_000_000_000_000, expiresMs: 5, released: 1 });
    expect(await lease({ clock: walled(() => 1_750_000_000_000), settleMs: 200 }).acquire()).toBe(true);
    expect(server.schemaRows.at(-1)).toMatchObject({ acquiredMs: 2_000_000_000_001, expiresMs: 1_750_000_300_000 });
  });

  it("SL-13 a claim stands at the very millisecond of its expiry, and is taken over after it", async () => {
    let wall = 1_750_000_000_000;
    server.schemaRows.push({ holder: "x", acquiredMs: 1_749_999_000_000, expiresMs: wall, released: 0 });
    const one = lease({ clock: walled(() => wall), settleMs: 200 });
    expect(await one.acquire()).toBe(false);
    expect(server.of("schema-write")).toHaveLength(0);
    wall += 1;
    expect(await one.acquire()).toBe(true);
  });

  it("SL-12 a claim that was answered more than half the settle after its free read was sent is neither held nor released", async () => {
    for (const stalled of ["schema-read", "schema-write"] as const) {
      server.schemaRows.length = 0;
      server.arrivals.length = 0;
      server.script = ({ operation }) =>
        operation === stalled && server.of(stalled).length === 1 ? { delayMs: 270 } : undefined;
      const one = lease({ clock: systemClock });
      expect(await one.acquire({ waitMs: 100 })).toBe(false);
      await one.release();
      expect(rows()).toHaveLength(1);
      expect(rows(1)).toHaveLength(0);
      expect(await one.status()).toMatchObject({ state: "held-elsewhere", heldBy: one.holder, stalledClaims: 1 });
    }
  });
});

describe("lapse", () => {
  it("a claim that has lapsed is not held any more: whoever took it over has it, and else it is claimed anew", async () => {
    let wall = 1_750_000_000_000;
    const one = lease({ clock: walled(() => wall), settleMs: 200, leaseMs: 5000 });
    expect(await one.acquire()).toBe(true);
    wall += 5000;
    expect(await one.acquire()).toBe(true);
    expect(server.of("schema-write")).toHaveLength(1);
    wall += 1;
    expect(await one.acquire()).toBe(true);
    expect(server.of("schema-write")).toHaveLength(2);
    wall += 5001;
    server.schemaRows.push({ holder: "x", acquiredMs: wall, expiresMs: wall + 60_000, released: 0 });
    expect(await one.acquire()).toBe(false);
    await one.release();
    expect(server.of("schema-write")).toHaveLength(2);
  });

  it("a claim that lapses while it settles is not held", async () => {
    let wall = 1_750_000_000_000;
    server.script = ({ operation }) => {
      if (operation === "schema-write") wall += 5001;
      return undefined;
    };
    const one = lease({ clock: walled(() => wall), settleMs: 200, leaseMs: 5000 });
    expect(await one.acquire()).toBe(false);
    expect(rows()).toHaveLength(1);
  });
});

describe("waiting", () => {
  it("SL-10 a wait of 0 is one attempt, and one that is outbid every time ends by its wait and one settle", async () => {
    server.script = ({ operation }) => {
      const row = server.schemaRows.at(-1);
      // Just before each deciding read a rival outbids, and has lapsed by the next look.
      if (operation === "schema-read" && row?.holder === "one") {
        server.schemaRows.push({ holder: "rival", acquiredMs: row.acquiredMs + 1, expiresMs: 0, released: 0 });
      }
      return undefined;
    };
    const one = lease({ holder: "one", settleMs: 100, pollMs: 200 });
    const delay = monitorEventLoopDelay({ resolution: 5 });
    delay.enable();
    expect(await one.acquire()).toBe(false);
    expect(rows().filter((row) => row.holder === "one")).toHaveLength(1);
    const start = performance.now();
    expect(await one.acquire({ waitMs: 1000 })).toBe(false);
    expect(performance.now() - start).toBeLessThanOrEqual(1000 + 100 + 100 + delay.max / 1e6);
    delay.disable();
    const claims = rows().filter((row) => row.holder === "one").length - 1;
    // More than the one attempt of a wait of 0, and no faster than its polls.
    expect(claims).toBeGreaterThanOrEqual(2);
    expect(claims).toBeLessThanOrEqual(6);
  });

  it("an aborted wait is CANCELED and holds nothing", async () => {
    server.schemaRows.push({ holder: "x", acquiredMs: 1, expiresMs: 9e15, released: 0 });
    const abort = new AbortController();
    const failing = failureOf(lease().acquire({ waitMs: 60_000, signal: abort.signal }));
    setTimeout(() => abort.abort(), 50);
    expect(await failing).toMatchObject({ code: "CANCELED" });
  });

  it("one whose signal is aborted before its claim, from the start or during the free read, writes none", async () => {
    const early = failureOf(lease().acquire({ signal: AbortSignal.abort() }));
    expect(await early).toMatchObject({ code: "CANCELED", outcome: "not-sent" });
    const abort = new AbortController();
    server.script = () => {
      abort.abort();
      return undefined;
    };
    const reading = failureOf(lease().acquire({ signal: abort.signal }));
    expect(await reading).toMatchObject({ code: "CANCELED", outcome: "not-sent" });
    expect(server.of("schema-write")).toEqual([]);
  });
});

describe("release and failures", () => {
  it("SL-07 SL-08 a release carries the stamp of its own claim; without a claim nothing is written; leaving a block by an error releases", async () => {
    const one = lease({ settleMs: 200 });
    await one.release();
    expect(rows()).toEqual([]);
    const failing = (async () => {
      await using held = one;
      expect(await held.acquire()).toBe(true);
      throw new Error("the work failed");
    })();
    await expect(failing).rejects.toThrow("the work failed");
    const [claim, release] = rows() as [SchemaRow, SchemaRow];
    expect(release).toMatchObject({ holder: one.holder, acquiredMs: claim.acquiredMs, released: 1 });
    await one.release();
    expect(rows()).toHaveLength(2);
  });

  it("SL-14 a read or write that fails is SCHEMA_LEASE and holds nothing", async () => {
    for (const [which, at] of [
      ["schema-read", 1],
      ["schema-write", 1],
      ["schema-read", 2],
    ] as const) {
      server.schemaRows.length = 0;
      server.arrivals.length = 0;
      server.script = ({ operation }) =>
        operation === which && server.of(which).length === at ? { error: { status: 400, code: 62 } } : undefined;
      const one = lease({ settleMs: 200 });
      const error = await failureOf(one.acquire());
      expect(error).toMatchObject({ code: "SCHEMA_LEASE" });
      expect(error.message).toMatch(/^\[SCHEMA_LEASE\] schema lease "s": could not (read the lease|write a claim): /);
      const before = server.of("schema-write").length;
      await one.release();
      expect(server.of("schema-write")).toHaveLength(before);
    }
  });
});
