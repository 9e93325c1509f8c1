/**
 * Goal: the simulated table answers as the real one does, so that what the simulator shows is about the product. Method: random sequences of
 * the port's operations on both, in step, each answer compared; only instants are left out, as the two have clocks of their own.
 */
import { systemClock } from "@holdfast/deadline-http";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ClickHouseLeaseTable, leaseConfig, type HeadLease, type LeaseTable } from "../../src/index.js";
import { SimulatedLeaseTable } from "../../src/testing/index.js";
import { startEngine, type Engine } from "../support/engine.js";

/** A fence of 90 s: whether a claim is live or too near its end is then not a matter of how fast this machine is. */
const config = leaseConfig({
  lease: { ttlMs: 200_000, publishTimeoutMs: 90_000 },
  catalog: { requestTimeoutMs: 180_000 },
});

let engine: Engine;
let real: ClickHouseLeaseTable;
beforeAll(async () => {
  engine = await startEngine();
  real = new ClickHouseLeaseTable({ client: engine.client(), config });
  await real.create();
});
afterAll(async () => {
  await real.close();
  await engine.stop();
});

/** Ids whose text order and ClickHouse's order differ: its own looks at the second half first. */
const ids = [
  "ffffffff-ffff-4fff-8000-000000000001",
  "00000000-0000-4000-bfff-ffffffffffff",
  "7fffffff-0000-4000-8000-000000000001",
  "80000000-0000-4000-9000-000000000000",
] as const;
const claimant = fc.record({
  leaseId: fc.constantFrom(...ids),
  term: fc.constantFrom(1n, 2n, 3n, 2n ** 53n + 1n),
});
/** Over at once, live but too short for a fence, and live for long. */
const ttls = fc.constantFrom(0, 80_000, 1_000_000);
type Operation =
  | { readonly what: "claim"; readonly leaseId: string; readonly term: bigint; readonly ttlMs: number }
  | { readonly what: "tombstone" | "fence"; readonly leaseId: string; readonly term: bigint }
  | { readonly what: "head" }
  | { readonly what: "term"; readonly term: bigint };
const operations: fc.Arbitrary<Operation> = fc.oneof(
  { weight: 4, arbitrary: fc.tuple(claimant, ttls).map(([c, ttlMs]): Operation => ({ what: "claim", ...c, ttlMs })) },
  { weight: 2, arbitrary: claimant.map((c): Operation => ({ what: "tombstone", ...c })) },
  { weight: 2, arbitrary: claimant.map((c): Operation => ({ what: "fence", ...c })) },
  { weight: 2, arbitrary: fc.constant<Operation>({ what: "head" }) },
  { weight: 1, arbitrary: claimant.map(({ term }): Operation => ({ what: "term", term })) },
);

const seen = (leases: readonly HeadLease[], nowNs: bigint | null) =>
  leases.map(({ leaseId, holder, expiresAtNs }) => [leaseId, holder, nowNs === null ? null : expiresAtNs > nowNs]);
const holderOf = (leaseId: string) => `holder of ${leaseId.slice(0, 8)}`;

/** What a table answers to an operation, without its instants. */
async function answer(
  table: LeaseTable,
  admits: (fence: ReturnType<LeaseTable["fence"]>) => boolean | Promise<boolean>,
  name: string,
  operation: Operation,
): Promise<unknown> {
  switch (operation.what) {
    case "claim": {
      const { leaseId, term, ttlMs } = operation;
      return table.insertClaim({ name, leaseId, term, ttlMs, holder: holderOf(leaseId) });
    }
    case "tombstone": {
      const { leaseId, term } = operation;
      return table.insertTombstone({ name, leaseId, term, holder: holderOf(leaseId) });
    }
    case "head": {
      const head = await table.readHead(name);
      return [head.term, seen(head.leases, head.nowNs)];
    }
    case "term":
      return seen(await table.readTerm(name, operation.term), null);
    case "fence":
      return admits(table.fence({ name, leaseId: operation.leaseId, term: operation.term }));
  }
}

describe("LS-17 LS-21 LS-29 the simulated table and the engine", () => {
  it("give the same answers to any sequence of operations", async () => {
    let runs = 0;
    const admitted = new Set<unknown>();
    await fc.assert(
      fc.asyncProperty(fc.array(operations, { minLength: 5, maxLength: 16 }), async (sequence) => {
        const name = `model ${(runs += 1)}`;
        const simulated = new SimulatedLeaseTable({ clock: systemClock, fenceMarginMs: config.publishTimeoutMs });
        for (const [i, operation] of [...sequence, { what: "head" } as const].entries()) {
          const onEngine = await answer(
            real,
            async ({ predicate, params, settings }) => {
              const [row] = await engine.rows<{ ok: number }>(`SELECT toUInt8(${predicate}) AS ok`, { ...params });
              expect(settings["max_execution_time"]).toBe(90);
              return row?.ok === 1;
            },
            name,
            operation,
          );
          const inMemory = await answer(simulated, (fence) => simulated.admits(fence), name, operation);
          expect(inMemory, `operation ${i}: ${operation.what}`).toEqual(onEngine);
          if (operation.what === "fence") admitted.add(onEngine);
        }
      }),
      { numRuns: 60, examples: [[bothWays]] },
    );
    expect([...admitted].sort()).toEqual([false, true]);
  });
});

/** A fence that admits, one that is too near its end, one of another's. */
const bothWays: Operation[] = [
  { what: "claim", leaseId: ids[0], term: 1n, ttlMs: 1_000_000 },
  { what: "fence", leaseId: ids[0], term: 1n },
  { what: "claim", leaseId: ids[0], term: 2n, ttlMs: 80_000 },
  { what: "fence", leaseId: ids[0], term: 2n },
  { what: "claim", leaseId: ids[1], term: 3n, ttlMs: 1_000_000 },
  { what: "claim", leaseId: ids[0], term: 3n, ttlMs: 1_000_000 },
  { what: "fence", leaseId: ids[0], term: 3n },
  { what: "fence", leaseId: ids[1], term: 3n },
];
