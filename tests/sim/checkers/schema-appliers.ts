import { wallEpochMs, type Machine } from "../world/machine.js";
import type { SchemaMix } from "../world/schema-mix.js";
import type { SchemaRow, SchemaTable } from "../world/schema-table.js";
import type { Coverage } from "./coverage.js";

/** One process that applies schemas. */
export interface SchemaApplier {
  readonly id: number;
  readonly holder: string;
  readonly machine: Machine;
  /** Its newest claim. */
  claim: SchemaRow | null;
  /** Told that it holds, from then until it gives back; and no longer than its claim stands by every clock. */
  until: number;
}

/**
 * The schema lease, judged on true time.
 *
 * - TwoAppliers: nobody is told that it holds while the claim of another stands that was told so.
 * - HeldByLapsedClaim: nobody is told that it holds by a claim that has lapsed by its own clock.
 * - LateReleaseFreesNobody: a release does not take the claim of a holder out of the answer of the table.
 */
export class SchemaAppliers {
  readonly appliers: SchemaApplier[] = [];

  constructor(
    readonly mix: SchemaMix,
    readonly table: SchemaTable,
    readonly coverage: Coverage,
    readonly fail: (checker: string, text: string) => void,
  ) {}

  /** The true time until which nobody with a clock inside the bound sees this claim as lapsed, nor one that it was stamped after. */
  #standsUntil(claim: SchemaRow): number {
    return claim.expiresMs - wallEpochMs - 3 * this.mix.wallSkewMs - 2;
  }

  sent(by: SchemaApplier, row: SchemaRow): void {
    if (!row.released) by.claim = row;
  }

  landed(by: SchemaApplier, row: SchemaRow, before: SchemaRow | null): void {
    if (!row.released) {
      const contested = this.appliers.some(({ claim }) => claim !== null && claim !== row && claim === before);
      if (contested && before !== null && !before.released) this.coverage.schemaRivalClaims += 1;
      return;
    }
    const after = this.table.final(null);
    if (before === null || before.released || before.holder === by.holder) return;
    this.coverage.schemaLateReleases += 1;
    const holds = this.appliers.some(({ claim, until }) => claim === before && until > this.table.queue.now);
    if (holds && after !== before) {
      this.fail("LateReleaseFreesNobody", `the release of ${by.holder} replaced the claim of ${before.holder}`);
    }
  }

  held(by: SchemaApplier): void {
    const { now } = this.table.queue;
    this.coverage.schemaGrants += 1;
    for (const other of this.appliers) {
      if (other === by || other.until <= now) continue;
      this.fail(
        "TwoAppliers",
        `${by.holder} holds from ${now.toFixed(1)} by the claim of ${by.claim?.acquiredMs}, ${other.holder} until ${other.until.toFixed(1)} by that of ${other.claim?.acquiredMs}`,
      );
    }
    // When its turn began: what passed in the turn came after the look at the clock, perhaps.
    const wallMs = by.machine.wallMs() - by.machine.inTurnMs;
    if (by.claim === null || by.claim.expiresMs < Math.floor(wallMs)) {
      this.fail("HeldByLapsedClaim", `${by.holder} holds by a claim that lapsed at ${by.claim?.expiresMs}`);
    }
    by.until = by.claim === null ? -Infinity : this.#standsUntil(by.claim);
  }

  givesBack(by: SchemaApplier): void {
    by.until = -Infinity;
  }
}
