import { detached } from "@holdfast/deadline-http";
import type { CaptureSchema, RecordInput } from "@holdfast/pack-format";
import type { Catalog } from "./catalog.js";
import type { CaptureServiceConfig } from "./config.js";
import { Engine } from "./engine.js";
import { CaptureError } from "./errors.js";
import { createIds } from "./ids.js";
import { admitRecord, type AdmittedRecord, type RecordRules } from "./records.js";
import type { CaptureService, CaptureStatus } from "./service-types.js";
import { settingsOf, type Settings } from "./settings.js";
import { nodeFiles, type SpoolFiles } from "./spool/files.js";
import type { Receipt } from "./spool/receipt.js";

/**
 * Makes a capture service; nothing is opened or sent before `start()`. CONFIG_INVALID names a setting that cannot work by its
 * full path, with the value; SCHEMA_INVALID.
 */
export function createCaptureService<S extends CaptureSchema>(config: CaptureServiceConfig<S>): CaptureService<S> {
  return createServiceOn(config, nodeFiles());
}

/** @internal The same on another file layer: tests put one there that fails, or stops the process, on demand. */
export function createServiceOn<S extends CaptureSchema>(
  config: CaptureServiceConfig<S>,
  files: SpoolFiles,
): CaptureService<S> {
  return new Service<S>(settingsOf(config), files);
}

class Service<S extends CaptureSchema> implements CaptureService<S> {
  readonly #rules: RecordRules;
  #state: CaptureStatus["state"] = "new";
  #engine: Engine | null = null;
  #catalog: Catalog | null = null;
  #starting: Promise<void> | null = null;
  #stopped: Promise<void> | null = null;
  readonly #stop = new AbortController();
  #last: ReturnType<Engine["status"]> | null = null;

  constructor(
    private readonly settings: Settings,
    private readonly files: SpoolFiles,
  ) {
    const { schema, clock, random, maxRecordBytes, spool } = settings;
    this.#rules = { schema, codec: spool.codec, maxRecordBytes, clock, newId: createIds(clock, random) };
  }

  start(o: { readonly signal?: AbortSignal } = {}): Promise<void> {
    if (this.#stop.signal.aborted) return Promise.reject(stoppedError());
    // In the root context: nothing of the service may inherit the deadline of whoever starts it.
    this.#starting ??= detached(() => this.#start(o.signal)).catch((error: unknown) => {
      this.#starting = null;
      throw error;
    });
    return this.#starting;
  }

  async #start(outer: AbortSignal | undefined): Promise<void> {
    this.#state = "starting";
    const signal = outer === undefined ? this.#stop.signal : AbortSignal.any([outer, this.#stop.signal]);
    try {
      signal.throwIfAborted();
      const onCatalog = (catalog: Catalog | null): void => {
        this.#catalog = catalog;
      };
      this.#engine = await Engine.start(this.settings, { files: this.files, signal, onCatalog });
      this.#state = "running";
    } catch (error) {
      if (this.#stop.signal.aborted) throw stoppedError(error);
      this.#state = "new";
      this.#catalog = null;
      throw error;
    }
  }

  async append(record: RecordInput<S>): Promise<Receipt> {
    return this.appendBatch([record]);
  }

  async appendBatch(records: readonly RecordInput<S>[]): Promise<Receipt> {
    const engine = this.#running("append");
    // Before anything is awaited: the caller may reuse its buffers when this call has returned.
    const admitted: AdmittedRecord[] = records.map((record) => admitRecord(this.#rules, record));
    return engine.spool.append(admitted);
  }

  async flush(timeoutMs: number): Promise<boolean> {
    if (!Number.isFinite(timeoutMs) || timeoutMs < 0) {
      throw new CaptureError("CONFIG_INVALID", `flush(timeoutMs) takes milliseconds, 0 or more; got ${timeoutMs}.`);
    }
    if (this.#stop.signal.aborted) return false;
    return this.#running("flush").flush(timeoutMs);
  }

  stop(): Promise<void> {
    this.#stopped ??= detached(() => this.#end());
    return this.#stopped;
  }

  async #end(): Promise<void> {
    this.#state = "stopping";
    this.#stop.abort();
    await this.#starting?.catch(() => undefined);
    await this.#engine?.stop();
    this.#last = this.#engine?.status() ?? null;
    this.#state = "stopped";
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  status(): CaptureStatus {
    const { role } = this.settings;
    const running = this.#state === "stopped" ? this.#last : (this.#engine?.status() ?? null);
    if (running !== null) return { role, state: this.#state, ...running };
    return { role, state: this.#state, ...nothing, lease: this.#catalog?.keeper.status() ?? null };
  }

  #running(what: string): Engine {
    if (this.#stop.signal.aborted) throw stoppedError();
    if (this.#engine !== null) return this.#engine;
    throw new CaptureError("NOT_STARTED", `${what}() was called before start() had resolved: await start() first.`);
  }
}

const stoppedError = (cause?: unknown): CaptureError =>
  new CaptureError("STOPPED", "the service has been stopped; make a new one.", cause === undefined ? {} : { cause });

/** The status of a service that has not started. */
const nothing: Omit<CaptureStatus, "role" | "state"> = {
  lease: null,
  spool: null,
  pendingIndex: 0,
  waitingForSchema: 0,
  setAside: [],
  reconcileOwed: false,
  cycles: 0,
  uploadedPacks: 0,
  uploadedBytes: 0,
  uploadFailures: 0,
  cancelledUploads: 0,
  publishedVoids: 0,
  indexedPacks: 0,
  indexedRecords: 0,
  indexFailures: 0,
  reconcilePasses: 0,
  reconciledPacks: 0,
  storeRequests: { put: 0, get: 0, head: 0, list: 0 },
  catalogStatements: 0,
  failureStreak: 0,
  lastError: null,
};
