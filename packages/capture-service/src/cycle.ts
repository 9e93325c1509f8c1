import type { LeaseKeeper } from "@holdfast/lease-core";
import type { CaptureRole } from "./config.js";
import type { Owed } from "./owed.js";
import type { Spool } from "./spool/spool.js";
import type { Uploader } from "./uploader.js";

/** What a cycle works on. `keeper` and `owed` are null in the role capture-only. */
export type CycleParts = {
  readonly role: CaptureRole;
  readonly spool: Spool;
  readonly uploader: Uploader;
  readonly keeper: LeaseKeeper | null;
  readonly owed: Owed | null;
  /** Packs uploaded at a time before they are indexed. */
  readonly chunk: number;
};

export type CycleOptions = {
  /** Aborted by a stop: ends object-store calls. */
  readonly signal: AbortSignal;
  /** False once the caller's time is up: no further batch is begun. */
  readonly goOn: () => boolean;
  /** False for `flush(0)`. */
  readonly uploads: boolean;
  /** The store or the catalog failed last time: one pack is tried before many. */
  readonly careful: boolean;
};

export type CycleResult = {
  /** All that was sealed is uploaded and, where this service indexes, in the catalog. */
  readonly drained: boolean;
  /** Nothing worked: the next cycle comes later. */
  readonly failed: boolean;
  /** Uploaded without being indexed here: a reconcile has to find them. */
  readonly leftToReconcile: boolean;
};

/**
 * One round: index what is owed, then upload and index, a chunk at a time. A publisher uploads nothing without the lease or
 * while a pack is owed: what it cannot index stays in its spool, which is durable and bounded, instead of in a bucket whose
 * catalog belongs to somebody else by then.
 */
export async function runCycle(parts: CycleParts, o: CycleOptions): Promise<CycleResult> {
  const cycle = new Cycle(parts, o);
  await cycle.run();
  return cycle.result();
}

class Cycle {
  #failed = false;
  #leftToReconcile = false;

  constructor(
    private readonly parts: CycleParts,
    private readonly o: CycleOptions,
  ) {}

  async run(): Promise<void> {
    if (this.#wantsLease) await this.parts.keeper?.tryAcquire();
    if (!(await this.#indexOwed())) return;
    if (!this.o.uploads) return;
    let first = true;
    while (this.#mayUpload(first)) {
      first = false;
      const packs = this.parts.uploader.next(this.o.careful ? 1 : this.parts.chunk);
      if (packs.length === 0) break;
      const { uploaded, failed } = await this.parts.uploader.upload(packs, this.o.signal);
      if (this.parts.role === "publisher" || this.#held) this.parts.owed?.add(uploaded);
      else if (this.parts.owed !== null && uploaded.length > 0) this.#leftToReconcile = true;
      if (failed > 0 && uploaded.length === 0) this.#failed = true;
      if (this.o.careful && uploaded.length > 0) this.parts.uploader.forgiveAll();
      if (!(await this.#indexOwed()) || this.#failed) return;
    }
    if (this.#mayUpload(first) && this.parts.spool.shelf.voids.length > 0) {
      if (!(await this.parts.uploader.publishVoids(this.o.signal)) && !this.o.signal.aborted) this.#failed = true;
    }
  }

  result(): CycleResult {
    const { role, owed, uploader, spool } = this.parts;
    const indexed = owed === null || owed.size === 0 || (role === "standby" && !this.#held);
    const drained = indexed && uploader.pending === 0 && spool.isSettled && !this.#failed;
    return { drained, failed: this.#failed, leftToReconcile: this.#leftToReconcile };
  }

  get #held(): boolean {
    return this.parts.keeper?.status().state === "held";
  }

  /** Only work calls for a claim: an idle service that gave the lease back leaves it. */
  get #wantsLease(): boolean {
    const { keeper, owed, uploader } = this.parts;
    if (keeper === null || keeper.status().state === "held") return false;
    return uploader.pending > 0 || (owed !== null && owed.size > 0);
  }

  /** True when uploads may follow. */
  async #indexOwed(): Promise<boolean> {
    const { owed, role } = this.parts;
    if (owed === null || owed.size === 0) return true;
    if (!this.#held) return role !== "publisher";
    const { done, failed } = await owed.index(this.o.signal, this.o.goOn);
    if (failed) this.#failed = true;
    return done || (role !== "publisher" && !failed);
  }

  /** Asked before every chunk, the first one included: the lease may have gone while the last one was under way. */
  #mayUpload(first: boolean): boolean {
    if (this.o.signal.aborted || (!first && !this.o.goOn())) return false;
    return this.parts.role !== "publisher" || (this.#held && this.parts.owed?.size === 0);
  }
}
