import type { ClaimRow, Fence, Head, HeadLease } from "@holdfast/lease-core";
import { LeaseRows } from "@holdfast/lease-core/testing";
import type { EventQueue } from "./event-queue.js";
import type { Mix } from "./mix.js";
import { between, type Random } from "./prng.js";

export const leaseName = "catalog";
const epochNs = 1_750_000_000_000_000_000n;

/**
 * The server side: one linearisable table behind several servers, each with a clock of its own that stays within the promised band
 * (or not, in the mode that says so).
 */
export class Catalog {
  readonly rows = new LeaseRows();
  readonly fenceMarginMs: number;
  /** Nothing is executed before this true time. */
  stalledUntil = 0;
  readonly #queue: EventQueue;
  readonly #skewMs: number;
  readonly #offsets: number[];
  readonly #random: Random;

  constructor(queue: EventQueue, mix: Mix, random: Random) {
    this.#queue = queue;
    this.#random = random;
    this.#skewMs = mix.serverSkewMs;
    this.fenceMarginMs = mix.publishMs + mix.clockSkewMs;
    this.#offsets = Array.from({ length: mix.servers }, () => this.#offset());
  }

  #offset(): number {
    return between(this.#random, -this.#skewMs / 2, this.#skewMs / 2);
  }

  /** Some server's clock jumps, within the band. */
  stepClock(): void {
    this.#offsets[Math.floor(this.#random() * this.#offsets.length)] = this.#offset();
  }

  /** The server that a statement comes to. */
  server(): number {
    return Math.floor(this.#random() * this.#offsets.length);
  }

  nowNs(server: number): bigint {
    return epochNs + BigInt(Math.round((this.#queue.now + this.#offsets[server]!) * 1e6));
  }

  head(server: number): Head {
    return this.rows.head(leaseName, this.nowNs(server));
  }

  admits(fence: Fence, server: number): boolean {
    return this.rows.admits(fence, this.nowNs(server));
  }

  term(term: bigint): readonly HeadLease[] {
    return this.rows.term(leaseName, term);
  }

  /** Stamps a row; it is there once it is landed. */
  stamp(claim: Omit<ClaimRow, "ttlMs">, ttlMs: number, server: number) {
    const acquiredAtNs = this.nowNs(server);
    const { name, term, leaseId, holder } = claim;
    return { name, term, leaseId, holder, acquiredAtNs, expiresAtNs: acquiredAtNs + BigInt(ttlMs) * 1_000_000n };
  }

  fence(lease: { name: string; term: bigint; leaseId: string }): Fence {
    const margin = BigInt(this.fenceMarginMs) * 1_000_000n;
    return {
      leaseId: lease.leaseId,
      term: lease.term,
      predicate: "(simulated)",
      params: { hf_name: lease.name, hf_lease: lease.leaseId, hf_margin_ns: margin.toString() },
      settings: {},
    };
  }
}
