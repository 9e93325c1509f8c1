import type { Checkers } from "./checkers.js";
import type { LeaseSeen } from "./records.js";

interface Admitted {
  readonly lease: LeaseSeen;
  readonly from: number;
  readonly until: number;
}

/**
 * What the servers admitted, on true time.
 *
 * - MutualExclusion: no two statements under different leases run at one moment.
 * - AdmittedUnderHeadOnly: an admitted statement's lease is alone at the head, by that server's clock, with the margin left.
 * - ReleasedAdmitsNothing: nothing is admitted under a lease whose tombstone stands, and none runs when it is written.
 */
export class FencedStatements {
  #running: Admitted[] = [];

  constructor(readonly all: Checkers) {}

  admitted(lease: LeaseSeen, durationMs: number): void {
    const { all } = this;
    const now = all.world.queue.now;
    all.coverage.fencedAdmitted += 1;
    this.#running = this.#running.filter(({ until }) => until > now);
    if (all.mix.clocks !== "beyond-server") {
      for (const other of this.#running) {
        if (other.lease === lease) continue;
        all.fail(
          "MutualExclusion",
          `a statement under lease ${lease.number} was admitted while one under lease ${other.lease.number} ran since ${other.from.toFixed(1)}, until ${other.until.toFixed(1)}`,
        );
      }
    }
    if (lease.releasedTrue !== null) {
      all.fail("ReleasedAdmitsNothing", `a statement was admitted under lease ${lease.number}, which was released`);
    }
    this.#running.push({ lease, from: now, until: now + durationMs });
  }

  /** The fence's answer against the rows themselves, read another way than the table does. */
  headIs(lease: LeaseSeen, server: number, admitted: boolean): void {
    const { all } = this;
    const { catalog } = all.world;
    const head = catalog.head(server);
    const rows = catalog.rows.rowsAt("catalog", head.term);
    const mine = rows.filter((row) => row.leaseId === lease.id);
    const least = Math.min(...mine.map((row) => Number(row.expiresAtNs - head.nowNs)));
    const expected = mine.length === rows.length && mine.length > 0 && least > catalog.fenceMarginMs * 1e6;
    if (expected !== admitted) {
      all.fail(
        "AdmittedUnderHeadOnly",
        `the fence of lease ${lease.number} answered ${admitted}, the rows say ${expected}`,
      );
    }
  }

  released(lease: LeaseSeen): void {
    const now = this.all.world.queue.now;
    const running = this.#running.find((one) => one.lease === lease && one.until > now);
    if (running && this.all.strict) {
      this.all.fail(
        "ReleasedAdmitsNothing",
        `lease ${lease.number} was released while a statement under it ran, until ${running.until.toFixed(1)}`,
      );
    }
  }
}
