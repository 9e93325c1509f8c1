import type { ClaimRow, Fence, Head, HeadLease, LeaseTable } from "@holdfast/lease-core";
import type { Checkers } from "../checkers/checkers.js";
import type { ClaimSeen, Incarnation, LeaseSeen } from "../checkers/records.js";
import type { Catalog } from "./catalog.js";
import type { Network, Statement } from "./network.js";
import { between, chance } from "./prng.js";

const outcomeOf = (error: unknown): string => (error as { outcome?: string }).outcome ?? "unknown";

/** The lease table and the catalog as one process reaches them; the checkers see every statement. */
export class Port implements LeaseTable {
  /** The claim whose read-back is awaited. */
  #claim: ClaimSeen | null = null;

  constructor(
    readonly by: Incarnation,
    readonly network: Network<Catalog>,
    readonly all: Checkers,
  ) {}

  get #catalog(): Catalog {
    return this.network.catalog;
  }

  create(): Promise<void> {
    return Promise.resolve();
  }

  async readHead(): Promise<Head> {
    const { by, all } = this;
    try {
      const head = await this.#read(
        "head",
        (leftMs, attempt) => all.claims.headSent(by, leftMs, attempt),
        (server) => {
          const head = this.#catalog.head(server);
          return () => head;
        },
      );
      all.claims.headAnswered(by, head);
      return head;
    } catch (error) {
      all.claims.headFailed(by);
      throw error;
    }
  }

  async insertClaim(row: ClaimRow): Promise<void> {
    const { by, all } = this;
    const sending: { claim: ClaimSeen | null } = { claim: null };
    try {
      await this.#insert(
        "claim",
        (leftMs, attempt) => {
          sending.claim = all.claims.claimSent(by, row, leftMs, attempt);
        },
        (server) => this.#landing(sending.claim!, row, server),
      );
      this.#claim = sending.claim;
    } catch (error) {
      if (sending.claim !== null) all.claims.claimFailed(by, sending.claim, outcomeOf(error));
      else all.claims.headFailed(by);
      throw error;
    }
  }

  #landing(claim: ClaimSeen, row: ClaimRow, server: number): () => void {
    const { faults, random } = this.network;
    if (faults && chance(random, faults.dropped)) return () => undefined;
    const stamped = this.#catalog.stamp(row, row.ttlMs, server);
    const stampedTrue = this.network.queue.now;
    return () => {
      // Two copies of one claim: it ends by the row that expires first, and lives no longer than the first.
      claim.stampedTrue ??= stampedTrue;
      this.#catalog.rows.add(stamped);
      this.all.world.log.add(
        this.network.queue.now,
        this.by.machine.id,
        "landed",
        Number(row.term),
        claim.lease.number,
      );
      this.all.claims.claimLanded(claim);
    };
  }

  async readTerm(_name: string, term: bigint): Promise<readonly HeadLease[]> {
    const { by, all } = this;
    const claim = this.#claim!;
    try {
      const leases = await this.#read(
        "term",
        (leftMs) => all.claims.termSent(by, claim, leftMs),
        () => {
          const leases = this.#catalog.term(term);
          return () => leases;
        },
      );
      all.claims.termAnswered(by, claim, leases);
      return leases;
    } catch (error) {
      all.claims.unknownOutcome(by, claim);
      throw error;
    }
  }

  async insertTombstone(row: { name: string; term: bigint; leaseId: string; holder: string }): Promise<void> {
    const { by, all } = this;
    const lease = all.lease(row.leaseId, by);
    await this.#insert(
      "tombstone",
      () => all.claims.tombstoneSent(by, lease, row.term),
      (server) => {
        const stamped = this.#catalog.stamp(row, 0, server);
        return () => {
          this.#catalog.rows.add(stamped);
          all.world.log.add(this.network.queue.now, by.machine.id, "released", Number(row.term), lease.number);
          all.coverage.releases += 1;
          all.fenced.released(lease);
          lease.releasedTrue ??= this.network.queue.now;
        };
      },
    );
  }

  fence(lease: { name: string; term: bigint; leaseId: string }): Fence {
    return this.#catalog.fence(lease);
  }

  /** An INSERT … SELECT under a fence; answers whether it added its row. `sent` is told before it goes out. */
  async insertFenced(fence: Fence, sent: () => void): Promise<boolean> {
    const { by, all, network } = this;
    const { random } = network;
    const { mix } = all;
    const lease: LeaseSeen = all.known(fence.leaseId);
    by.fencedInFlight += 1;
    try {
      return await network.request(by.machine, {
        kind: "fenced",
        write: true,
        serviceMs: mix.profile === "swarm" && chance(random, 0.2) ? random() * mix.publishMs : this.#insertMs(),
        serverCapMs: mix.publishMs,
        capped: true,
        sent,
        execute: (server, durationMs) => {
          const admitted = this.#admits(fence, lease, server, durationMs);
          return () => admitted;
        },
      });
    } finally {
      by.fencedInFlight -= 1;
    }
  }

  #admits(fence: Fence, lease: LeaseSeen, server: number, durationMs: number): boolean {
    const { all } = this;
    const admitted = this.#catalog.admits(fence, server);
    all.fenced.headIs(lease, server, admitted);
    all.world.log.add(this.network.queue.now, this.by.machine.id, admitted ? "admitted" : "fenced out", lease.number);
    if (admitted) all.fenced.admitted(lease, durationMs * all.world.lingers);
    else all.coverage.fencedRefused += 1;
    return admitted;
  }

  /** Any read of the catalog. */
  async readSomething(sent: () => void): Promise<void> {
    await this.#read("read", sent, () => () => undefined);
  }

  #read<T>(kind: string, sent: Statement<T>["sent"], execute: Statement<T>["execute"]): Promise<T> {
    const { pace, random } = this.network;
    const serviceMs = between(random, pace.readMs[0], pace.readMs[1]);
    return this.network.request(this.by.machine, {
      kind,
      write: false,
      serviceMs,
      serverCapMs: Infinity,
      capped: false,
      sent,
      execute,
    });
  }

  #insertMs(): number {
    const { pace, random } = this.network;
    return between(random, pace.insertMs[0], pace.insertMs[1]);
  }

  #insert<T>(kind: string, sent: Statement<T>["sent"], execute: Statement<T>["execute"]): Promise<T> {
    const serviceMs = this.#insertMs();
    return this.network.request(this.by.machine, {
      kind,
      write: true,
      serviceMs,
      serverCapMs: Infinity,
      capped: true,
      sent,
      execute,
    });
  }
}
