import type { Indexer, PackFailure, PackRef } from "@holdfast/indexer";
import type { ErrorLog } from "./error-log.js";
import { describe } from "./errors.js";
import type { SetAsidePack } from "./service-types.js";

/** How an attempt to index what is owed ended. */
export type IndexOutcome = {
  /** Nothing is owed any more. */
  readonly done: boolean;
  /** The catalog, the store or the lease failed, as opposed to single packs. */
  readonly failed: boolean;
};

/**
 * Packs that are uploaded and not in the catalog yet. They are named in the status and block new uploads of a publisher, so
 * that what one index pass after another cannot take in does not grow without bound.
 */
export class Owed {
  readonly counters = { indexedPacks: 0, indexedRecords: 0, failures: 0 };
  readonly setAside = new Map<string, SetAsidePack>();
  readonly waitingForSchema = new Map<string, PackRef>();
  readonly #packs = new Map<string, { readonly ref: PackRef; attempts: number }>();

  constructor(
    private readonly o: {
      readonly indexer: Indexer;
      readonly packsPerPass: number;
      readonly packAttempts: number;
      readonly errors: ErrorLog;
    },
  ) {}

  get size(): number {
    return this.#packs.size;
  }

  add(refs: readonly PackRef[]): void {
    for (const ref of refs) this.#packs.set(ref.key, { ref, attempts: 0 });
  }

  /**
   * Indexes what is owed, a batch at a time, oldest first; `goOn` is asked before each batch but the first. A batch that fails
   * as a whole ends it and blames nobody. Never rejects; a stop is no failure.
   */
  async index(signal: AbortSignal, goOn: () => boolean): Promise<IndexOutcome> {
    // Each pack is tried once per call: those that fail stay behind for a later one.
    const refs = [...this.#packs.values()].map(({ ref }) => ref);
    for (let at = 0; at < refs.length; at += this.o.packsPerPass) {
      if (at > 0 && !goOn()) break;
      const batch = refs.slice(at, at + this.o.packsPerPass);
      try {
        const result = await this.o.indexer.index(batch, { signal });
        this.counters.indexedPacks += result.indexedPacks;
        this.counters.indexedRecords += result.indexedRecords;
        if (this.#settle(batch, result.failures)) return { done: false, failed: true };
      } catch (error) {
        if (signal.aborted) break;
        this.counters.failures += 1;
        this.o.errors.note(`index failed, ${this.#packs.size} packs are owed: ${describe(error)}`);
        return { done: false, failed: true };
      }
    }
    return { done: this.#packs.size === 0, failed: false };
  }

  /** True when the object store failed, which says nothing about the packs. */
  #settle(batch: readonly PackRef[], failures: readonly PackFailure[]): boolean {
    let storeFailed = false;
    const failed = new Map(failures.map((failure) => [failure.pack.key, failure]));
    for (const { key } of batch) {
      const failure = failed.get(key);
      if (failure === undefined) this.#packs.delete(key);
      else if (failure.kind === "store") storeFailed = true;
      else this.#blame(failure);
      if (failure !== undefined) {
        this.counters.failures += 1;
        this.o.errors.note(`index of ${key}: ${failure.message}`);
      }
    }
    return storeFailed;
  }

  #blame({ pack, code, message, kind }: PackFailure): void {
    const owed = this.#packs.get(pack.key);
    if (owed === undefined) return;
    owed.attempts += 1;
    if (kind === "waiting-for-schema") {
      // A service that knows the newer schema finds it by reconcile. Here it must not block what this one can do.
      this.waitingForSchema.set(pack.key, pack);
    } else if (kind === "foreign" || owed.attempts >= this.o.packAttempts) {
      this.setAside.set(pack.key, { key: pack.key, code, message });
      this.o.indexer.setAside([pack]);
    } else return;
    this.#packs.delete(pack.key);
  }
}
