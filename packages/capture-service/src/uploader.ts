import { instantAfter, type Clock, type Instant } from "@holdfast/deadline-http";
import { packKey, packMetadata, voidKey, type PackRef } from "@holdfast/indexer";
import { putVerified, writeIdKey, type Body, type ObjectStore } from "@holdfast/object-store";
import type { CaptureSchema } from "@holdfast/pack-format";
import { bounded, isAborted } from "./bounded.js";
import type { ErrorLog } from "./error-log.js";
import { codeOf, describe } from "./errors.js";
import type { SetAsidePack } from "./service-types.js";
import type { PackNumber } from "./spool/names.js";
import type { SealedPack } from "./spool/pack-file.js";
import type { Spool } from "./spool/spool.js";

/** Errors of an upload that no repetition can mend. */
const hopeless = new Set(["TOO_LARGE", "INVALID_KEY", "INVALID_METADATA", "UNSUPPORTED"]);
const longestPauseMs = 30_000;

export type UploadResult = {
  /** Uploaded, verified and out of the spool. */
  readonly uploaded: readonly PackRef[];
  readonly failed: number;
  /** Cut short by the stop: no failures, and still in the spool. */
  readonly cancelled: number;
};

type Attempts = { count: number; retryAt: Instant };

/**
 * Takes sealed packs from the spool to the store. A pack leaves the spool only after its object was seen in the store with our
 * write id and size; the write id is the SHA-256 of the bytes, so the same pack is recognised after a lost answer, a crash, or a
 * second salvage, and a different object at its key never is: that is a conflict, and nothing is overwritten.
 */
export class Uploader {
  readonly counters = { uploadedPacks: 0, uploadedBytes: 0, failures: 0, cancelled: 0, voids: 0 };
  /** By file name; what is here stays in the spool. */
  readonly setAside = new Map<string, SetAsidePack>();
  readonly #attempts = new Map<string, Attempts>();

  constructor(
    private readonly o: {
      readonly store: ObjectStore;
      readonly schema: CaptureSchema;
      readonly spool: Spool;
      readonly clock: Clock;
      readonly concurrency: number;
      readonly timeoutMs: number;
      readonly errors: ErrorLog;
    },
  ) {}

  /** Packs that are still to be uploaded, given-up ones aside. */
  get pending(): number {
    const { packs, voids } = this.o.spool.shelf;
    return packs.length + voids.length - this.setAside.size;
  }

  /** The oldest packs that may be tried now, at most `most`. */
  next(most: number): SealedPack[] {
    const now = this.o.clock.now();
    const ready: SealedPack[] = [];
    for (const pack of this.o.spool.shelf.packs) {
      if (ready.length === most) break;
      if (!this.setAside.has(pack.name) && (this.#attempts.get(pack.name)?.retryAt ?? now) <= now) ready.push(pack);
    }
    return ready;
  }

  /** Uploads packs, some at a time. One that fails does not hold up the others; it is tried again later. Never rejects. */
  async upload(packs: readonly SealedPack[], signal: AbortSignal): Promise<UploadResult> {
    const uploaded: PackRef[] = [];
    let [failed, cancelled] = [0, 0];
    const waiting = [...packs];
    const worker = async (): Promise<void> => {
      for (let pack = waiting.shift(); pack !== undefined; pack = waiting.shift()) {
        if (isAborted(signal)) return;
        try {
          const ref = await this.#uploadOne(pack, signal);
          if (ref !== null) uploaded.push(ref);
        } catch (error) {
          if (isAborted(signal)) cancelled += 1;
          else {
            failed += 1;
            this.#failed(pack, error);
          }
        }
      }
    };
    await Promise.all(Array.from({ length: this.o.concurrency }, worker));
    this.counters.failures += failed;
    this.counters.cancelled += cancelled;
    uploaded.sort((a, b) => (a.sequence < b.sequence ? -1 : 1));
    return { uploaded, failed, cancelled };
  }

  /** Publishes the numbers that no pack uses. Answers whether all are. */
  async publishVoids(signal: AbortSignal): Promise<boolean> {
    const { spool, schema } = this.o;
    for (const number of [...spool.shelf.voids]) {
      if (isAborted(signal)) return false;
      const key = voidKey({ catalog: schema.name, ...number });
      try {
        await this.#put(key, new Uint8Array(), `void-${number.writerId}-${number.sequence.toString()}`, {}, signal);
        await spool.shelf.removeVoid(number);
        this.counters.voids += 1;
      } catch (error) {
        if (codeOf(error) === "CONFLICT") await spool.shelf.removeVoid(number);
        else {
          if (!isAborted(signal)) this.o.errors.note(`void number ${key}: ${describe(error)}`);
          return false;
        }
      }
    }
    return true;
  }

  /** The store answers again: what failed while it did not may be tried at once. */
  forgiveAll(): void {
    this.#attempts.clear();
  }

  async #uploadOne(pack: SealedPack, signal: AbortSignal): Promise<PackRef | null> {
    const { spool, store, schema } = this.o;
    if (!(await spool.shelf.isIntact(pack, signal))) {
      await spool.shelf.moveAside(pack);
      spool.noteMovedAside(`${pack.name} was moved aside: its bytes are not what its name says`);
      return null;
    }
    const key = this.#key(pack);
    const { packId, sha256, records } = pack;
    const metadata = packMetadata({ packId, sha256, records, schema });
    await this.#put(key, spool.shelf.body(pack), sha256, metadata, signal);
    await spool.shelf.remove(pack);
    spool.roomFreed();
    this.#attempts.delete(pack.name);
    this.counters.uploadedPacks += 1;
    this.counters.uploadedBytes += pack.bytes;
    const { writerId, sequence, bytes } = pack;
    return { storeId: store.storeId, key, packId, writerId, sequence, bytes, sha256, records };
  }

  async #put(
    key: string,
    body: Body,
    writeId: string,
    metadata: Readonly<Record<string, string>>,
    outer: AbortSignal,
  ): Promise<void> {
    const { store, clock, timeoutMs: ms } = this.o;
    const bound = { name: "upload", ms, knobs: { "upload.timeoutMs": ms } };
    await bounded(clock, bound, outer, async (signal) => {
      const contentType = "application/vnd.holdfast.pack";
      const result = await putVerified(store, key, body, { writeId, metadata, contentType, signal });
      if (result.outcome === "conflict") {
        const message = `another object of ${result.info.size} bytes is at ${key}; nothing was overwritten`;
        throw Object.assign(new Error(message), { code: "CONFLICT" });
      }
      if (result.outcome !== "created") throw result.error;
      const seen = await store.head(key, { signal });
      const size = body instanceof Uint8Array ? body.byteLength : body.size;
      const ours = !store.capabilities.metadata || seen?.metadata[writeIdKey] === writeId;
      if (seen?.size !== size || !ours) throw new Error(`${key} was put and is not in the store as it was put`);
    });
  }

  #failed(pack: SealedPack, error: unknown): void {
    const key = this.#key(pack);
    const message = describe(error);
    const code = codeOf(error) ?? "UPLOAD_FAILED";
    this.o.errors.note(`upload of ${key}: ${message}`);
    if (code === "CONFLICT" || hopeless.has(code)) {
      this.setAside.set(pack.name, { key, code, message });
      return;
    }
    const count = (this.#attempts.get(pack.name)?.count ?? 0) + 1;
    const pause = Math.min(longestPauseMs, 500 * 2 ** Math.min(count, 10));
    this.#attempts.set(pack.name, { count, retryAt: instantAfter(this.o.clock.now(), pause) });
  }

  #key(pack: PackNumber & { readonly packId: string }): string {
    const { writerId, sequence, packId } = pack;
    return packKey({ catalog: this.o.schema.name, writerId, sequence, packId });
  }
}
