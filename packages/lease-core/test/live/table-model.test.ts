/**
 * Goal: the simulated tables answer as the real engine does, whatever is done in whatever order. Method: random sequences of statements on
 * both, and on the rows that the simulator uses; every answer must be the same but for the stamps. Time is kept out: a row lives for an
 * hour or for nothing.
 */
import { systemClock } from "@holdfast/deadline-http";
import fc from "fast-check";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ClickHouseLeaseTable, leaseConfig, type Head, type HeadLease, type LeaseTable } from "../../src/index.js";
import { LeaseRows, SimulatedLeaseTable } from "../../src/testing/index.js";
import { startEngine, type Engine } from "../support/engine.js";

const config = leaseConfig();
const hourMs = 3_600_000;
let engine: Engine;
let runs = 0;

beforeAll(async () => {
  engine = await startEngine();
  await new ClickHouseLeaseTable({ client: engine.client(), config }).create();
});
afterAll(() => engine.stop());

/** The second half decides in ClickHouse, so that the order of these texts says nothing. */
const leaseIds = [
  "00000000-0000-4000-9000-000000000001",
  "ffffffff-ffff-4fff-8000-000000000001",
  "11111111-0000-4000-8000-0000000000ff",
  "eeeeeeee-0000-4000-8000-0000000000ff",
];

const lease = fc.record({ place: fc.nat(1), term: fc.integer({ min: 1, max: 3 }), id: fc.nat(leaseIds.length - 1) });
const operation = fc.oneof(
  fc.record({ do: fc.constant("claim" as const), lease, ttlMs: fc.constantFrom(0, hourMs, 2 * hourMs) }),
  fc.record({ do: fc.constant("tombstone" as const), lease }),
  fc.record({ do: fc.constant("head" as const), lease }),
  fc.record({ do: fc.constant("term" as const), lease }),
  fc.record({ do: fc.constant("fence" as const), lease }),
);
type Operation = typeof operation extends fc.Arbitrary<infer T> ? T : never;

interface Side {
  readonly table: LeaseTable;
  admits(fence: ReturnType<LeaseTable["fence"]>): Promise<boolean>;
}

/** Without the stamps: which leases, in which order, whose, and whether they live. */
const plain = (leases: readonly HeadLease[], nowNs: bigint) =>
  leases.map(({ leaseId, holder, expiresAtNs }) => ({ leaseId, holder, lives: expiresAtNs > nowNs }));
const plainHead = ({ term, leases, nowNs }: Head) => ({ term, leases: plain(leases, nowNs) });

async function perform({ table, admits }: Side, op: Operation, names: readonly string[]): Promise<unknown> {
  const name = names[op.lease.place]!;
  const term = BigInt(op.lease.term);
  const leaseId = leaseIds[op.lease.id]!;
  const row = { name, term, leaseId, holder: `holder ${op.lease.id}` };
  switch (op.do) {
    case "claim":
      return table.insertClaim({ ...row, ttlMs: op.ttlMs });
    case "tombstone":
      return table.insertTombstone(row);
    case "head":
      return plainHead(await table.readHead(name));
    case "term": {
      // The server's now is in the head alone; a row of no length has expired by any clock a moment later.
      const { nowNs } = await table.readHead(name);
      return plain(await table.readTerm(name, term), nowNs);
    }
    case "fence":
      return admits(table.fence({ name, term, leaseId }));
  }
}

function engineSide(): Side {
  const table = new ClickHouseLeaseTable({ client: engine.client(), config });
  const admits: Side["admits"] = async (fence) => {
    const [answer] = await engine.rows<{ ok: number }>(`SELECT ${fence.predicate} AS ok`, { ...fence.params });
    return answer!.ok === 1;
  };
  return { table, admits };
}

function simulatedSide(): Side & { readonly simulated: SimulatedLeaseTable } {
  const simulated = new SimulatedLeaseTable({ clock: systemClock, fenceMarginMs: config.publishTimeoutMs });
  return { simulated, table: simulated, admits: async (fence) => simulated.admits(fence) };
}

/** Runs so many sequences on all three. */
async function compare(numRuns: number, seed: number): Promise<void> {
  const real = engineSide();
  await fc.assert(
    fc.asyncProperty(fc.array(operation, { minLength: 4, maxLength: 25 }), async (operations) => {
      const names = [`model-${(runs += 1)}`, `model-${runs} beside`];
      const model = simulatedSide();
      for (const op of operations) {
        expect(await perform(model, op, names)).toEqual(await perform(real, op, names));
      }
      const rows = new LeaseRows();
      for (const row of model.simulated.rows) rows.add(row);
      for (const name of names) {
        const head = model.simulated.head(name);
        expect(rows.head(name, head.nowNs)).toEqual(head);
      }
    }),
    { numRuns, seed },
  );
}

it("LS-17 LS-21 LS-29 random statements are answered alike by the engine, the simulated table and the simulator's rows", () =>
  compare(15, 20_261_130));

it("LS-17 LS-21 LS-29 so are many more", { tags: ["slow"] }, () => compare(60, 20_261_201));
