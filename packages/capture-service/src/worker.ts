import type { Instant } from "@holdfast/deadline-http";
import { isAborted } from "./bounded.js";
import type { Catalog } from "./catalog.js";
import { runCycle, type CycleResult } from "./cycle.js";
import type { ErrorLog } from "./error-log.js";
import { describe } from "./errors.js";
import { Mutex } from "./mutex.js";
import { Owed } from "./owed.js";
import type { SetAsidePack } from "./service-types.js";
import type { Settings } from "./settings.js";
import type { Spool } from "./spool/spool.js";
import { Uploader } from "./uploader.js";
import type { ObjectStore } from "@holdfast/object-store";

const longestPauseMs = 30_000;
const longestStreak = 32;

/** What the loop and `flush` have in common: cycles one at a time, reconcile, giving an idle lease back. */
export class Worker {
  readonly uploader: Uploader;
  readonly owed: Owed | null;
  readonly #cycles = new Mutex();
  #streak = 0;
  #cycleCount = 0;
  #reconcileOwed: boolean;
  /** A predecessor of this service, or it itself without the lease, may have uploaded what only a reconcile will index. */
  #unseen: boolean;
  #lastReconcile: Instant;
  #reconcilePasses = 0;
  #reconciledPacks = 0;
  #idleSince: Instant | null = null;
  #doneWhenIdle = 0;
  readonly #reconcileAside = new Map<string, SetAsidePack>();

  constructor(
    private readonly o: {
      readonly settings: Settings;
      readonly catalog: Catalog | null;
      readonly spool: Spool;
      readonly store: ObjectStore;
      readonly errors: ErrorLog;
      /** Aborted by the stop. */
      readonly signal: AbortSignal;
    },
  ) {
    const { settings, catalog, spool, store, errors } = o;
    const { clock, schema, upload, index } = settings;
    this.uploader = new Uploader({ store, schema, spool, clock, errors, ...upload });
    this.owed = catalog === null ? null : new Owed({ indexer: catalog.indexer, errors, ...index });
    this.#reconcileOwed = catalog !== null && settings.reconcile.onStart;
    this.#unseen = this.#reconcileOwed;
    this.#lastReconcile = clock.now();
  }

  get streak(): number {
    return this.#streak;
  }

  /** One cycle, after those asked for before. Null when it was not begun: `wanted` said no by then. Never rejects. */
  cycle(o: { goOn: () => boolean; uploads: boolean; wanted: () => boolean }): Promise<CycleResult | null> {
    return this.#cycles.run(async () => {
      if (!o.wanted() || this.o.signal.aborted) return null;
      this.#cycleCount += 1;
      const { settings, catalog, spool, signal } = this.o;
      const parts = { role: settings.role, spool, uploader: this.uploader, owed: this.owed };
      const keeper = catalog?.keeper ?? null;
      const chunk = 4 * settings.upload.concurrency;
      try {
        const options = { signal, careful: this.#streak > 0, goOn: o.goOn, uploads: o.uploads };
        const result = await runCycle({ ...parts, keeper, chunk }, options);
        if (result.leftToReconcile) {
          this.#reconcileOwed = true;
          this.#unseen = true;
        }
        this.#count(result.failed);
        // A standby that waits has done its part when it has uploaded.
        const waits = settings.role === "standby" && keeper?.status().state !== "held";
        return { ...result, drained: result.drained && (waits || !this.#unseen) };
      } catch (error) {
        if (!signal.aborted) this.o.errors.note(`a cycle failed: ${describe(error)}`);
        this.#count(!signal.aborted);
        return { drained: false, failed: true, leftToReconcile: false };
      }
    });
  }

  /** Resolves when no cycle runs. */
  idle(): Promise<void> {
    return this.#cycles.idle();
  }

  /** How long to wait before the next cycle, `usualMs` when all is well: doubled by each failure in a row, up to 30 s. */
  pauseMs(usualMs: number): number {
    return Math.max(usualMs, this.#streak === 0 ? 0 : Math.min(longestPauseMs, usualMs * 2 ** this.#streak));
  }

  /** Reconciles when it is due and the lease is held. A failure is noted and owed; it never rejects. */
  async reconcileIfDue(): Promise<void> {
    const { catalog, settings, signal, errors } = this.o;
    const { intervalMs, fullIntervalMs } = settings.reconcile;
    if (catalog === null || signal.aborted) return;
    const sinceMs = settings.clock.now() - this.#lastReconcile;
    if (catalog.keeper.status().state === "released" && sinceMs >= fullIntervalMs) await catalog.keeper.tryAcquire();
    const due = this.#reconcileOwed || (intervalMs > 0 && sinceMs >= intervalMs);
    if (!due || catalog.keeper.status().state !== "held") return;
    this.#lastReconcile = settings.clock.now();
    this.#reconcileOwed = true;
    try {
      const result = await catalog.indexer.reconcile({ signal });
      // What could not be looked at may be what a predecessor left: the pass is owed until all of it was.
      const partly = result.headErrors > 0 || result.failures.some(({ kind }) => kind === "store");
      this.#reconcileOwed = partly;
      this.#unseen &&= partly;
      this.#reconcilePasses += 1;
      this.#reconciledPacks += result.reconciledPacks;
      for (const { pack, code, message } of result.setAside) {
        this.#reconcileAside.set(pack.key, { key: pack.key, code, message });
      }
      const [failure] = result.failures;
      if (failure !== undefined) errors.note(`reconcile of ${failure.pack.key}: ${failure.message}`);
      if (result.headErrors > 0) errors.note(`reconcile could not look at ${result.headErrors} objects; it will again`);
    } catch (error) {
      if (isAborted(signal)) return;
      errors.note(`reconcile failed: ${describe(error)}`);
      this.#count(true);
    }
  }

  /** Gives the lease back once nothing has been owed, nor done, for `releaseWhenIdleMs`. The next pack takes it again. */
  async releaseIfIdle(result: CycleResult | null): Promise<void> {
    const { catalog, settings } = this.o;
    if (catalog === null || settings.releaseWhenIdleMs === null) return;
    const now = settings.clock.now();
    // A cycle that is drained at its end may have had work: a service that has some in every cycle is not idle.
    const done = this.#done;
    const idle = result?.drained === true && !this.#reconcileOwed && done === this.#doneWhenIdle;
    this.#doneWhenIdle = done;
    if (!idle) this.#idleSince = null;
    else this.#idleSince ??= now;
    if (this.#idleSince === null || now - this.#idleSince < settings.releaseWhenIdleMs) return;
    if (catalog.keeper.status().state === "held") await catalog.keeper.release();
  }

  /** Grows with each pack or void number that is uploaded or becomes visible. */
  get #done(): number {
    const { uploadedPacks, voids } = this.uploader.counters;
    return uploadedPacks + voids + (this.owed?.counters.indexedPacks ?? 0) + this.#reconciledPacks;
  }

  setAside(): SetAsidePack[] {
    const maps = [this.uploader.setAside, this.owed?.setAside, this.#reconcileAside];
    return maps.flatMap((map) => [...(map?.values() ?? [])]);
  }

  status() {
    return {
      pendingIndex: this.owed?.size ?? 0,
      waitingForSchema: this.owed?.waitingForSchema.size ?? 0,
      setAside: this.setAside(),
      reconcileOwed: this.#reconcileOwed,
      cycles: this.#cycleCount,
      uploadedPacks: this.uploader.counters.uploadedPacks,
      uploadedBytes: this.uploader.counters.uploadedBytes,
      uploadFailures: this.uploader.counters.failures,
      cancelledUploads: this.uploader.counters.cancelled,
      publishedVoids: this.uploader.counters.voids,
      indexedPacks: this.owed?.counters.indexedPacks ?? 0,
      indexedRecords: this.owed?.counters.indexedRecords ?? 0,
      indexFailures: this.owed?.counters.failures ?? 0,
      reconcilePasses: this.#reconcilePasses,
      reconciledPacks: this.#reconciledPacks,
      failureStreak: this.#streak,
    };
  }

  #count(failed: boolean): void {
    this.#streak = failed ? Math.min(longestStreak, this.#streak + 1) : 0;
  }
}
