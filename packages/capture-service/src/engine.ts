import { detached, instantAfter, type Instant } from "@holdfast/deadline-http";
import { LeaseError } from "@holdfast/lease-core";
import { openCatalog, type Catalog } from "./catalog.js";
import { countingStore, type StoreRequests } from "./counting-store.js";
import { ErrorLog } from "./error-log.js";
import { CaptureError, describe } from "./errors.js";
import { createIds } from "./ids.js";
import { systemRandom } from "./prng.js";
import type { Settings } from "./settings.js";
import type { SpoolFiles } from "./spool/files.js";
import { openSpool } from "./spool/open-spool.js";
import type { Spool } from "./spool/spool.js";
import { Worker } from "./worker.js";

/** Pause between two cycles of a flush that has not drained yet. */
const flushPauseMs = 100;

/**
 * What runs between a start and a stop. Made whole by `Engine.start`, or not at all.
 *
 * Order of the start: tables, lease (whose keeper renews from then on), spool, reconcile, loop. A start that is refused the
 * lease has not touched the spool. Order of the stop: loop, spool, keeper, which then releases: nothing is written to the
 * catalog after the release.
 */
export class Engine {
  readonly #worker: Worker;
  readonly #stopping = new AbortController();
  readonly #reported = new Set<string>();
  #loop: Promise<void> = Promise.resolve();

  private constructor(
    private readonly settings: Settings,
    private readonly catalog: Catalog | null,
    readonly spool: Spool,
    private readonly store: ReturnType<typeof countingStore>,
    private readonly errors: ErrorLog,
  ) {
    const { signal } = this.#stopping;
    this.#worker = new Worker({ settings, catalog, spool, store: store.store, errors, signal });
  }

  /** `signal` ends the start; `onCatalog` is told when the lease is held, long before a large bucket has been listed. */
  static async start(
    settings: Settings,
    o: { files: SpoolFiles; signal: AbortSignal; onCatalog: (catalog: Catalog | null) => void },
  ): Promise<Engine> {
    const store = countingStore(settings.store);
    const errors = new ErrorLog();
    const catalog = await openCatalog(settings, store.store, o.signal);
    o.onCatalog(catalog);
    let spool: Spool | null = null;
    try {
      o.signal.throwIfAborted();
      const { clock, random, allowSharedFileSystem } = settings;
      spool = await openSpool({
        settings: settings.spool,
        newId: createIds(clock, random),
        random: random ?? systemRandom,
        ...{ allowSharedFileSystem, clock, errors, files: o.files, signal: o.signal },
      });
      const engine = new Engine(settings, catalog, spool, store, errors);
      await engine.#startReconcile(o.signal);
      return engine;
    } catch (error) {
      await spool?.close();
      await catalog?.close();
      throw error;
    }
  }

  /** The first reconcile is part of the start, and a failure of it is not one of the start: the loop owes it. */
  async #startReconcile(signal: AbortSignal): Promise<void> {
    const abort = (): void => this.#stopping.abort();
    signal.addEventListener("abort", abort, { once: true });
    try {
      if (this.settings.reconcile.onStart) await this.#worker.reconcileIfDue();
      signal.throwIfAborted();
    } finally {
      signal.removeEventListener("abort", abort);
    }
    this.#loop = this.#runLoop();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    const steps = [
      () => this.#loop,
      () => this.#worker.idle(),
      () => this.spool.close(),
      async () => this.catalog?.close(),
    ];
    for (const step of steps) {
      // One that fails must not keep the next from being done: a stop ends everything.
      await step().catch((error: unknown) => this.errors.note(`stopping: ${describe(error)}`));
    }
  }

  async #runLoop(): Promise<void> {
    const { clock, publishIntervalMs } = this.settings;
    const { signal } = this.#stopping;
    const goOn = (): boolean => !signal.aborted;
    while (goOn()) {
      const result = await this.#worker.cycle({ goOn, uploads: true, wanted: goOn });
      await this.#worker.reconcileIfDue();
      await this.#worker.releaseIfIdle(result);
      await clock.sleep(this.#worker.pauseMs(publishIntervalMs), { signal }).catch(() => undefined);
    }
  }

  /** See CaptureService.flush. */
  async flush(timeoutMs: number): Promise<boolean> {
    const { clock } = this.settings;
    if (timeoutMs === 0) {
      const result = await detached(() =>
        this.#worker.cycle({ goOn: () => false, uploads: false, wanted: () => true }),
      );
      this.#throwWhatWasGivenUp();
      return result?.drained === true;
    }
    const deadline = instantAfter(clock.now(), timeoutMs);
    const { signal } = this.#stopping;
    const inTime = (): boolean => clock.now() < deadline && !signal.aborted;
    this.#throwIfLatched();
    await this.#until(deadline, this.spool.seal("manual"));
    while (inTime()) {
      const cycle = detached(() => this.#worker.cycle({ goOn: inTime, uploads: true, wanted: inTime }));
      const result = await this.#until(deadline, cycle);
      this.#throwWhatWasGivenUp();
      this.#throwIfLatched();
      if (result?.drained === true) return true;
      const pause = clock.sleep(this.#worker.pauseMs(flushPauseMs), { signal }).catch(() => undefined);
      await this.#until(deadline, pause);
    }
    return false;
  }

  /** What `work` gives, or null at the deadline; the work goes on then. */
  #until<T>(deadline: Instant, work: Promise<T>): Promise<T | null> {
    const { clock } = this.settings;
    return new Promise((resolve, reject) => {
      const timer = clock.setTimer(Math.max(0, deadline - clock.now()), () => resolve(null));
      work.then(resolve, reject).finally(() => timer.cancel());
    });
  }

  #throwIfLatched(): void {
    const lease = this.catalog?.keeper.status();
    if (lease?.state !== "failed") return;
    throw new LeaseError(
      "LEASE_LATCHED",
      `this publisher has given up: ${lease.lastError ?? "another holder kept it out"}. Its packs are safe in the spool: stop it, ` +
        `end the other publisher or make one of them a standby, and start again`,
      lease.heldBy === undefined ? {} : { heldBy: lease.heldBy },
    );
  }

  #throwWhatWasGivenUp(): void {
    const fresh = this.#worker.setAside().filter(({ key }) => !this.#reported.has(key));
    if (fresh.length === 0) return;
    for (const { key } of fresh) this.#reported.add(key);
    const list = fresh.map(({ key, code, message }) => `${key} (${code}: ${message})`).join("; ");
    throw new CaptureError(
      "PACKS_SET_ASIDE",
      `${fresh.length} packs were given up since the last flush; they stay where they are, and their records are not in the ` +
        `catalog: ${list}`.slice(0, 4000),
    );
  }

  status() {
    const lease = this.catalog === null ? null : this.catalog.keeper.status();
    return {
      lease,
      spool: this.spool.status(),
      ...this.#worker.status(),
      storeRequests: { ...(this.store.requests satisfies StoreRequests) },
      catalogStatements: this.catalog?.indexer.counters.catalogStatements ?? 0,
      lastError: lease?.leaseTimeoutError ?? this.errors.last,
    };
  }
}
