/**
 * Goal: every decision of the schema lease, and what it writes. Method: the real SchemaLease and HTTP client against the scripted server,
 * whose log and rows are the oracle, by a virtual clock: time passes only when the test says so.
 */
import type { ClickHouseClient } from "@clickhouse/client";
import { until } from "@holdfast-private/tests-machine";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { SchemaLease, type SchemaLeaseOptions } from "../../src/index.js";
import { SteppingClock } from "../support/clocks.js";
import { failureOf } from "../support/keepers.js";
import { gate, quietClient, ScriptedClickHouse, type SchemaRow } from "../support/scripted-clickhouse.js";

let clock: SteppingClock;
let server: ScriptedClickHouse;
let client: ClickHouseClient;

beforeEach(async () => {
  clock = new SteppingClock();
  server = await ScriptedClickHouse.start(clock);
  client = quietClient(server.url);
});
afterEach(async () => {
  await client.close();
  await server.refuse();
});

const lease = (o: Partial<SchemaLeaseOptions> = {}) => new SchemaLease({ client, name: "s", clock, ...o });
const rows = (released?: number) =>
  server.schemaRows.filter((row) => released === undefined || row.released === released);

/** Lets time pass while all of it sleep, `sleepers` of them; requests and answers cost none. */
async function passing<T>(work: Promise<T>, sleepers = 1): Promise<T> {
  const state = { over: false };
  const over = () => void (state.over = true);
  work.then(over, over);
  await until("it is over", async () => {
    if (clock.sleepers === sleepers) await clock.wake();
    return state.over;
  });
  return work;
}

describe("claim", () => {
  it("SL-01 free read, claim, 500 ms, read again: and held", async () => {
    const one = lease();
    expect(await passing(one.acquire())).toBe(true);
    expect(server.arrivals.map(({ operation }) => operation)).toEqual(["schema-read", "schema-write", "schema-read"]);
    expect(server.arrivals[2]!.at - server.arrivals[1]!.at).toBe(500);
    expect(server.arrivals[1]!.settings).toMatchObject({ async_insert: "0", insert_deduplicate: "0" });
    expect(await one.acquire()).toBe(true);
    expect(server.of("schema-write")).toHaveLength(1);
  });

  it("SL-01 of two claims 100 ms apart the later one wins and the earlier goes back to waiting", async () => {
    // Both find it free: the later one has read before the earlier one has written.
    const slow = gate();
    server.script = ({ operation }) =>
      operation === "schema-read" && server.of("schema-read").length === 1 ? slow : undefined;
    const other = quietClient(server.url);
    const late = lease({ holder: "late" }).acquire();
    await until("the later one reads", () => server.of("schema-read").length === 1);
    const early = lease({ holder: "early", client: other }).acquire();
    await until("the earlier one settles", () => clock.sleepers === 1);
    await clock.advance(100);
    slow.open();
    await until("both settle", () => clock.sleepers === 2);
    await clock.wake();
    expect(await early).toBe(false);
    await clock.wake();
    expect(await late).toBe(true);
    expect(server.schemaRows.map((row) => row.holder)).toEqual(["early", "late"]);
    await other.close();
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
      expect(await passing(lease({ strictReadback, settleMs: 200 }).acquire())).toBe(strictReadback ? strict : held);
    }
  });

  it("SL-14 claims are compared by the millisecond that is stored, whatever the clock's resolution", async () => {
    clock.wall = 1_750_000_000_000.789;
    const one = lease({ settleMs: 200, strictReadback: true });
    expect(await passing(one.acquire())).toBe(true);
    expect(server.schemaRows).toMatchObject([{ acquiredMs: 1_750_000_000_000, expiresMs: 1_750_000_300_000 }]);
  });

  it("a slow clock still stamps above the row that it replaces", async () => {
    server.schemaRows.push({ holder: "fast", acquiredMs: 2_000_000_000_000, expiresMs: 5, released: 1 });
    clock.wall = 1_750_000_000_000;
    expect(await passing(lease({ settleMs: 200 }).acquire())).toBe(true);
    expect(server.schemaRows.at(-1)).toMatchObject({ acquiredMs: 2_000_000_000_001, expiresMs: 1_750_000_300_000 });
  });

  it("SL-13 a claim stands at the very millisecond of its expiry, and is taken over after it", async () => {
    clock.wall = 1_750_000_000_000;
    server.schemaRows.push({ holder: "x", acquiredMs: 1_749_999_000_000, expiresMs: clock.wall, released: 0 });
    const one = lease({ settleMs: 200 });
    expect(await one.acquire()).toBe(false);
    expect(server.of("schema-write")).toHaveLength(0);
    clock.wall += 1;
    expect(await passing(one.acquire())).toBe(true);
  });

  it.each(["schema-read", "schema-write"] as const)(
    "SL-12 a claim that was answered more than half the settle after its free read was sent is neither held nor released (slow: %s)",
    async (slow) => {
      for (const [ms, held] of [
        [251, false],
        [250, true],
      ] as const) {
        server.schemaRows.length = 0;
        server.arrivals.length = 0;
        const answer = gate();
        server.script = ({ operation }) => (operation === slow && server.of(slow).length === 1 ? answer : undefined);
        const one = lease();
        const acquiring = one.acquire();
        await until("it is slow", () => server.of(slow).length === 1);
        await clock.advance(ms);
        answer.open();
        expect(await passing(acquiring)).toBe(held);
        if (held) continue;
        await one.release();
        expect(rows()).toHaveLength(1);
        expect(rows(1)).toHaveLength(0);
        expect(await one.status()).toMatchObject({ state: "held-elsewhere", heldBy: one.holder, stalledClaims: 1 });
      }
    },
  );
});

describe("lapse", () => {
  it("a claim that has lapsed is not held any more: whoever took it over has it, and else it is claimed anew", async () => {
    clock.wall = 1_750_000_000_000;
    const one = lease({ settleMs: 200, leaseMs: 5000 });
    expect(await passing(one.acquire())).toBe(true);
    clock.wall += 5000;
    expect(await one.acquire()).toBe(true);
    expect(server.of("schema-write")).toHaveLength(1);
    clock.wall += 1;
    expect(await passing(one.acquire())).toBe(true);
    expect(server.of("schema-write")).toHaveLength(2);
    clock.wall += 5001;
    const { wall } = clock;
    server.schemaRows.push({ holder: "x", acquiredMs: wall, expiresMs: wall + 60_000, released: 0 });
    expect(await one.acquire()).toBe(false);
    await one.release();
    expect(server.of("schema-write")).toHaveLength(2);
  });

  it("a claim that lapses while it settles is not held", async () => {
    clock.wall = 1_750_000_000_000;
    server.script = ({ operation }) => {
      if (operation === "schema-write") clock.wall = 1_750_000_005_001;
      return undefined;
    };
    const one = lease({ settleMs: 200, leaseMs: 5000 });
    expect(await passing(one.acquire())).toBe(false);
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
    const claims = () => rows().filter((row) => row.holder === "one").length;
    expect(await passing(one.acquire())).toBe(false);
    expect(claims()).toBe(1);
    const start = clock.now();
    expect(await passing(one.acquire({ waitMs: 1100 }))).toBe(false);
    expect(clock.now() - start).toBe(1100 + 100);
    // At 0, 300, 600 and 900, and once more as the wait ends: each a settle and a poll after the one before.
    expect(claims() - 1).toBe(5);
  });

  it("an aborted wait is CANCELED and holds nothing", async () => {
    server.schemaRows.push({ holder: "x", acquiredMs: 1, expiresMs: 9e15, released: 0 });
    const abort = new AbortController();
    const failing = failureOf(lease().acquire({ waitMs: 60_000, signal: abort.signal }));
    await until("it waits", () => clock.sleepers === 1);
    abort.abort();
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
      expect(await passing(held.acquire())).toBe(true);
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
      const error = await failureOf(passing(one.acquire()));
      expect(error).toMatchObject({ code: "SCHEMA_LEASE" });
      expect(error.message).toMatch(/^\[SCHEMA_LEASE\] schema lease "s": could not (read the lease|write a claim): /);
      const before = server.of("schema-write").length;
      await one.release();
      expect(server.of("schema-write")).toHaveLength(before);
    }
  });
});
