import { createLimiter } from "@holdfast/object-store";
import type { Instant } from "@holdfast/deadline-http";
import { throwIfCanceled } from "../cancel.js";
import type { Context } from "../context.js";
import { readGuard } from "../guard.js";
import { indexPacks } from "../index-packs.js";
import type { PackFailure, ReconcileResult } from "../indexer-types.js";
import { packRefFromInfo, type PackRef } from "../pack-ref.js";
import { passLock } from "../pass-lock.js";
import { underLease } from "../store-access.js";
import { Cursors } from "./cursors.js";
import { listCatalog, type Listed, type ListingCounts } from "./listing.js";

const headsAtOnce = 8;

type Missing = Listed & { readonly packId: string };

type Pass = {
  readonly counts: ListingCounts;
  readonly failures: PackFailure[];
  readonly setAside: PackFailure[];
  reconciledPacks: number;
  reconciledRecords: number;
  headErrors: number;
};

/**
 * SELECT of where each writer's unbroken run of inventoried numbers ends, as the next number. In a dense list from 0 the
 * n-th number is n exactly as long as nothing is missing before it.
 */
export function cursorStatement(inventory: string): string {
  return (
    `SELECT writer_id, max(sequence) + 1 AS next FROM (` +
    `SELECT writer_id, sequence, row_number() OVER (PARTITION BY writer_id ORDER BY sequence) - 1 AS hf_place FROM (` +
    `SELECT DISTINCT writer_id, sequence FROM ${inventory} WHERE store_id = {store_id:String})` +
    `) WHERE sequence = hf_place GROUP BY writer_id`
  );
}

/** Finds what is in the bucket and not in the catalog. Remembers cursors and blame for as long as the process lives. */
export class Reconciler {
  readonly #context: Context;
  readonly #fullIntervalMs: number;
  readonly #cursors = new Cursors();
  readonly #blamed = new Map<string, number>();
  readonly #setAside = new Set<string>();
  readonly #oneAtATime = createLimiter(1);
  #loaded = false;
  #lastFull: Instant;

  constructor(context: Context, fullIntervalMs: number) {
    this.#context = context;
    this.#fullIntervalMs = fullIntervalMs;
    this.#lastFull = context.clock.now();
  }

  setAside(packs: readonly Pick<PackRef, "writerId" | "sequence" | "key">[]): void {
    for (const pack of packs) {
      this.#setAside.add(pack.key);
      this.#cursors.of(pack.writerId).account(pack.sequence);
    }
  }

  async run(o: { signal?: AbortSignal; full?: boolean }): Promise<ReconcileResult> {
    return this.#oneAtATime(() => this.#run(o), o.signal ?? new AbortController().signal);
  }

  async #run(o: { signal?: AbortSignal; full?: boolean }): Promise<ReconcileResult> {
    const { clock, counters, schema, store } = this.#context;
    const startedAt = clock.now();
    const full = o.full ?? startedAt - this.#lastFull >= this.#fullIntervalMs;
    const counts: ListingCounts = { objects: 0, requests: 0, foreign: 0, writers: new Set() };
    const pass: Pass = { counts, failures: [], setAside: [], reconciledPacks: 0, reconciledRecords: 0, headErrors: 0 };
    await this.#loadCursors();
    const listing = { store, catalog: schema.name, cursors: this.#cursors, full, counts, signal: o.signal };
    for await (const group of listCatalog(listing)) await this.#settle(group, pass, full, o.signal);
    if (full) this.#lastFull = startedAt;
    counters.reconcilePasses += 1;
    counters.reconciledPacks += pass.reconciledPacks;
    counters.foreignObjects += counts.foreign;
    counters.headErrors += pass.headErrors;
    return {
      full,
      listedObjects: counts.objects,
      listRequests: counts.requests,
      writers: counts.writers.size,
      reconciledPacks: pass.reconciledPacks,
      reconciledRecords: pass.reconciledRecords,
      foreignObjects: counts.foreign,
      headErrors: pass.headErrors,
      setAside: pass.setAside,
      failures: pass.failures,
    };
  }

  async #loadCursors(): Promise<void> {
    if (this.#loaded) return;
    const { catalog, keeper, store, tables } = this.#context;
    const rows = await underLease(keeper, () =>
      catalog.decide<{ writer_id: string; next: string }>(cursorStatement(tables.inventory), {
        store_id: store.storeId,
      }),
    );
    for (const row of rows) this.#cursors.load(row.writer_id, BigInt(row.next));
    this.#loaded = true;
  }

  /** Accounts for what the catalog has and indexes what it does not have. */
  async #settle(group: readonly Listed[], pass: Pass, full: boolean, signal: AbortSignal | undefined): Promise<void> {
    throwIfCanceled(signal);
    const asked: Missing[] = [];
    for (const { info, parts } of group) {
      const { packId, sequence, writerId } = parts;
      const cursor = this.#cursors.of(writerId);
      if (packId === null) cursor.account(sequence);
      else if (this.#setAside.has(info.key) || (!full && cursor.isAccounted(sequence))) continue;
      else asked.push({ info, parts, packId });
    }
    const missing = await this.#withoutKnown(asked);
    const packs = await this.#heads(missing, pass, signal);
    const { packsPerPass } = this.#context.limits;
    for (let at = 0; at < packs.length; at += packsPerPass) {
      await this.#index(packs.slice(at, at + packsPerPass), pass, signal);
    }
  }

  async #withoutKnown(asked: readonly Missing[]): Promise<readonly Missing[]> {
    if (asked.length === 0) return [];
    const { catalog, keeper, store, tables } = this.#context;
    const identities = asked.map(({ info, packId }) => ({ storeId: store.storeId, key: info.key, packId }));
    const known = await underLease(keeper, () => readGuard(catalog, tables, identities));
    return asked.filter(({ info, parts }) => {
      if (known.get(info.key)?.inventoried !== true) return true;
      this.#cursors.of(parts.writerId).account(parts.sequence);
      return false;
    });
  }

  /** A listing carries no metadata. A head that fails is asked again by the next pass: the cursor stays before it. */
  async #heads(missing: readonly Missing[], pass: Pass, signal: AbortSignal | undefined): Promise<readonly PackRef[]> {
    const limiter = createLimiter(headsAtOnce);
    const { store } = this.#context;
    const found = await Promise.all(
      missing.map(({ info }) =>
        limiter(async () => {
          try {
            const head = await store.head(info.key, signal);
            return head === null ? "gone" : (packRefFromInfo(store.storeId, head) ?? "foreign");
          } catch {
            throwIfCanceled(signal);
            return "failed";
          }
        }, new AbortController().signal),
      ),
    );
    const packs: PackRef[] = [];
    for (const each of found) {
      if (each === "failed") pass.headErrors += 1;
      else if (each === "foreign") pass.counts.foreign += 1;
      else if (each !== "gone") packs.push(each);
    }
    return packs;
  }

  async #index(packs: readonly PackRef[], pass: Pass, signal: AbortSignal | undefined): Promise<void> {
    const { keeper } = this.#context;
    const run = () => indexPacks(this.#context, packs, { signal });
    const result = await passLock(keeper)(run, signal ?? new AbortController().signal);
    pass.reconciledPacks += result.indexedPacks;
    pass.reconciledRecords += result.indexedRecords;
    pass.failures.push(...result.failures);
    const failed = new Map(result.failures.map((failure) => [failure.pack.key, failure]));
    for (const pack of packs) {
      const failure = failed.get(pack.key);
      if (failure === undefined) this.#cursors.of(pack.writerId).account(pack.sequence);
      else this.#blame(failure, pass);
    }
  }

  /** Only a broken pack is ever set aside; a foreign one has nothing to wait for. The others stay owed, below the cursor. */
  #blame(failure: PackFailure, pass: Pass): void {
    const { key } = failure.pack;
    if (failure.kind === "foreign") {
      pass.counts.foreign += 1;
      this.setAside([failure.pack]);
    }
    if (failure.kind !== "pack") return;
    const times = (this.#blamed.get(key) ?? 0) + 1;
    this.#blamed.set(key, times);
    if (times < this.#context.limits.packAttempts && failure.code !== "BATCH_TOO_LARGE") return;
    this.#blamed.delete(key);
    this.setAside([failure.pack]);
    pass.setAside.push(failure);
  }
}
