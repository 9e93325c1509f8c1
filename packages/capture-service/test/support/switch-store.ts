import { ObjectStoreError, type ObjectStore, type PutResult } from "@holdfast/object-store";
import { Barrier } from "./barrier.js";

type Operation = "put" | "get" | "head" | "list";
export type StoreCall = { readonly operation: Operation; readonly key: string; readonly atMs: number };
/**
 * `down` refuses the call as unavailable; `lost` does it and loses the answer (put only); `corrupt` gives other bytes (get
 * only); `stall` waits for the signal; a barrier holds the call until it is opened.
 */
export type StoreFault = "down" | "lost" | "corrupt" | "stall" | Barrier;

/** A store that can be made to fail or to wait, and that remembers what it was asked. */
export class SwitchStore implements ObjectStore {
  readonly contract = 1;
  readonly storeId: string;
  capabilities: ObjectStore["capabilities"];
  readonly calls: StoreCall[] = [];
  fault: (operation: Operation, key: string) => StoreFault | undefined = () => undefined;

  /** `clock`: whose time stands in `calls`. */
  constructor(
    private readonly inner: ObjectStore,
    private readonly clock: { now(): number } = performance,
  ) {
    this.storeId = inner.storeId;
    this.capabilities = inner.capabilities;
  }

  count(operation: Operation): number {
    return this.calls.filter((call) => call.operation === operation).length;
  }

  async #fate(operation: Operation, key: string, signal: AbortSignal): Promise<StoreFault | undefined> {
    this.calls.push({ operation, key, atMs: this.clock.now() });
    const fault = this.fault(operation, key);
    if (fault === "stall") await new Barrier().pass(signal);
    else if (fault instanceof Barrier) await fault.pass(signal);
    return fault;
  }

  async put(...[key, body, o]: Parameters<ObjectStore["put"]>): Promise<PutResult> {
    try {
      const fault = await this.#fate("put", key, o.signal);
      const size = body instanceof Uint8Array ? body.byteLength : body.size;
      if (size > this.capabilities.maxObjectBytes) {
        return { outcome: "failed", error: new ObjectStoreError("TOO_LARGE", `${size} bytes`) };
      }
      if (fault === "down") return { outcome: "failed", error: unavailable() };
      const result = await this.inner.put(key, body, o);
      return fault === "lost" ? { outcome: "unknown", error: unavailable() } : result;
    } catch (error) {
      return { outcome: "unknown", error: error as Error };
    }
  }
  async get(...[key, o]: Parameters<ObjectStore["get"]>) {
    const fault = await this.#fate("get", key, o.signal);
    if (fault === "down") throw unavailable();
    const found = await this.inner.get(key, o);
    return fault === "corrupt" ? { ...found, bytes: found.bytes.map((byte) => byte ^ 0xff) } : found;
  }
  async head(...[key, o]: Parameters<ObjectStore["head"]>) {
    if ((await this.#fate("head", key, o.signal)) === "down") throw unavailable();
    return this.inner.head(key, o);
  }
  async *list(o: Parameters<ObjectStore["list"]>[0]) {
    if ((await this.#fate("list", o.prefix, o.signal)) === "down") throw unavailable();
    yield* this.inner.list(o);
  }
  delete(...[key, o]: Parameters<ObjectStore["delete"]>) {
    return this.inner.delete(key, o);
  }
}

const unavailable = (): ObjectStoreError => new ObjectStoreError("UNAVAILABLE", "the store was made to be down");
