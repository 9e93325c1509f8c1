/**
 * Goal: the report of a schema lease names the holder that its row carries, character for character. Method: a real server; leases with odd
 * holders write their rows as an applier does; the row is read by a client of the test's own and compared.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readSchemaLease, SchemaLease, type ReadSchemaLeaseOptions } from "../../src/index.js";
import { Applier } from "../support/applier.js";
import { startEngine, type Engine } from "../support/engine.js";
import { failureOf } from "../support/keepers.js";

let engine: Engine;
let names = 0;
const table = "holdfast_schema_lease";
/** Longer than a test takes on any machine. */
const hour = 3_600_000;

beforeAll(async () => {
  engine = await startEngine();
  await applier("none", "none").lease.createTable();
});
afterAll(() => engine.stop());

const name = () => `it's "schema" ${(names += 1)}`;
const applier = (of: string, holder: string, wallMs?: number) =>
  new Applier({ client: engine.client(), name: of, holder, leaseMs: hour }, wallMs);
const read = (of: string, o: Partial<ReadSchemaLeaseOptions> = {}) =>
  readSchemaLease({ client: engine.client(), name: of, requestTimeoutMs: 600_000, ...o });

/** The row, as another reader sees it. */
async function rowOf(of: string): Promise<{ holder: string; acquired: number; expires: number }> {
  const [row] = await engine.rows<{ holder: string; acquired: string; expires: string }>(
    `SELECT holder, toString(acquired_at_ms) AS acquired, toString(expires_at_ms) AS expires FROM ${table} FINAL WHERE lock_name = {of:String}`,
    { of },
  );
  return { holder: row!.holder, acquired: Number(row!.acquired), expires: Number(row!.expires) };
}

const holders: readonly (readonly [what: string, holder: string])[] = [
  ["the usual form", "pod-7/1a2b3c4d"],
  ["quotes and backslashes", `it's "quoted" \`ticked\` \\n \\' {name:String} %27 -- ;`],
  ["control characters", "line\nbreak\r\ttab\u0000nul\u001b[31m"],
  ["letters of other scripts and emoji", "Größe-コンテナ-\u{1F680}-e\u0301-\u202Ertl"],
  ["blanks around it", "  pod 7  "],
  ["the 256 bytes that a holder may have", "ä".repeat(128)],
];

it("where no applier has run it is no-table, where none has claimed unclaimed; a database that is not there is an error", async () => {
  const o = { table: "never_applied" };
  const nothing = { readAtMs: expect.any(Number) as number };
  expect(await read("s", o)).toEqual({ state: "no-table", ...nothing });
  await new SchemaLease({ client: engine.client(), name: "s", ...o }).createTable();
  expect(await read("s", o)).toEqual({ state: "unclaimed", ...nothing });
  expect(await read("s", { database: engine.connection.database })).toEqual({ state: "unclaimed", ...nothing });
  const error = await failureOf(read("s", { database: "holdfast_no_such_database" }));
  expect(error).toMatchObject({ code: "SCHEMA_LEASE", outcome: "refused" });
  expect(error.message).toContain("holdfast_no_such_database");
});

describe("over the life of a claim", () => {
  it.each(holders)("SL-06 held, then released: holder and stamp are those of the row, with %s", async (_, holder) => {
    const of = name();
    const one = applier(of, holder);
    expect(await one.acquire()).toBe(true);
    const held = await rowOf(of);
    expect(held.holder).toBe(holder);
    const report = { holder, claimedAtMs: held.acquired, expiresAtMs: held.expires };
    expect(await read(of)).toMatchObject({ state: "held", ...report });
    expect(JSON.parse(JSON.stringify(await read(of)))).toMatchObject(report);

    await one.lease.release();
    const { expires: releasedAtMs } = await rowOf(of);
    expect(await read(of)).toMatchObject({ state: "released", holder, claimedAtMs: held.acquired, releasedAtMs });
  });

  it("SL-06 a holder longer than any lease of ours writes is shown whole", async () => {
    const of = name();
    const holder = "very-long/".repeat(10_000);
    const values = [{ lock_name: of, holder, acquired_at_ms: 1, expires_at_ms: Date.now() + hour, released: 0 }];
    await engine.client().insert({ table, values, format: "JSONEachRow" });
    expect(await read(of)).toMatchObject({ state: "held", holder, claimedAtMs: 1 });
  });

  it("SL-06 SL-07 taken over after it lapsed, and released late by its first holder: the report names the second", async () => {
    const of = name();
    const start = Date.now();
    // By the clocks of the appliers, which stand still.
    const one = applier(of, "one", start - 2 * hour);
    expect(await one.acquire()).toBe(true);
    expect(await read(of)).toMatchObject({ state: "lapsed", holder: "one", expiresAtMs: start - hour });
    const two = applier(of, "two", start);
    expect(await two.acquire()).toBe(true);
    await one.lease.release();
    const { acquired } = await rowOf(of);
    expect(await read(of)).toMatchObject({ holder: "two", claimedAtMs: acquired, expiresAtMs: start + hour });
  });

  it("SL-06 of another lease in the same table it shows nothing", async () => {
    const of = name();
    expect(await applier(of, "x").acquire()).toBe(true);
    expect(await read(`${of}-other`)).toMatchObject({ state: "unclaimed" });
  });
});
