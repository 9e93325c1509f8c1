import { within, type Clock } from "@holdfast/deadline-http";
import type { LeaseConfig } from "./config.js";
import type { ClaimResult } from "./coordinator.js";
import { factsOf } from "./errors.js";
import type { LeaseTable } from "./lease-table.js";

export interface TableReadyOptions {
  readonly table: LeaseTable;
  readonly config: LeaseConfig;
  readonly clock: Clock;
  /** False: the table is there already, or somebody else's to make. */
  readonly createTable: boolean;
}

/** What has to be so before the first claim: a server that will do, and a table. Each is seen to once. */
export class TableReady {
  readonly #o: TableReadyOptions;
  #tableSeen: boolean;
  #serverChecked = false;

  constructor(o: TableReadyOptions) {
    this.#o = o;
    this.#tableSeen = !o.createTable;
  }

  /** Creates the table unless it is there, as the caller's own statement. */
  async createTable(): Promise<void> {
    const { clock, config, table } = this.#o;
    const knobs = { "catalog.requestTimeoutMs": config.requestTimeoutMs };
    await this.#checkServer();
    await within(config.requestTimeoutMs, () => table.create(), { name: "creation of the lease table", knobs, clock });
    this.#tableSeen = true;
  }

  /** Null when all is so. What fails here is a claim that wrote nothing. */
  async unready(): Promise<ClaimResult | null> {
    try {
      await this.#checkServer();
      if (!this.#tableSeen) await this.#underClaimBound(() => this.createTable());
      return null;
    } catch (error) {
      return { result: "failed", error, timedOut: factsOf(error).timedOut, insert: "not-sent" };
    }
  }

  async #checkServer(): Promise<void> {
    if (this.#serverChecked) return;
    await this.#underClaimBound(async () => this.#o.table.checkServer?.());
    this.#serverChecked = true;
  }

  #underClaimBound(work: () => Promise<void>): Promise<void> {
    const { config, clock } = this.#o;
    return within(config.claimBoundMs, work, {
      name: "claim bound min(catalog.requestTimeoutMs, lease.ttlMs / 3)",
      knobs: { "catalog.requestTimeoutMs": config.requestTimeoutMs, "lease.ttlMs": config.ttlMs },
      clock,
    });
  }
}
