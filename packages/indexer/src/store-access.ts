import { AsyncLocalStorage } from "node:async_hooks";
import { DeadlineExceededError, type Clock } from "@holdfast/deadline-http";
import type { LeaseKeeper, Stretch } from "@holdfast/lease-core";
import { getExactly, untilAborted, type ObjectInfo, type ObjectStore } from "@holdfast/object-store";
import type { ByteSource } from "@holdfast/pack-format";
import { throwIfCanceled } from "./cancel.js";
import { CatalogError } from "./catalog-error.js";

const inStretch = new AsyncLocalStorage<true>();

/**
 * A stretch under the lease lock. Object-store calls made inside it are refused: a store that stalls would otherwise hold
 * the lock, and with it the renewals' turn.
 */
export function underLease<T>(keeper: LeaseKeeper, fn: (stretch: Stretch) => Promise<T>): Promise<T> {
  return keeper.exclusive((stretch) => inStretch.run(true, () => fn(stretch)));
}

/** Reads of one object store, each bounded by `timeoutMs` and by the caller's signal, none under the lease lock. */
export type StoreAccess = {
  readonly storeId: string;
  /** A pack object as pack-format reads it. */
  source(key: string, bytes: number, signal?: AbortSignal): ByteSource;
  head(key: string, signal?: AbortSignal): Promise<ObjectInfo | null>;
  /** One page of a listing: at most `limit` objects behind `startAfter`. */
  page(o: { prefix: string; startAfter: string; limit: number }, signal?: AbortSignal): Promise<readonly ObjectInfo[]>;
};

export function storeAccess(o: { store: ObjectStore; clock: Clock; timeoutMs: number }): StoreAccess {
  const { store } = o;
  const call = async <T>(signal: AbortSignal | undefined, fn: (signal: AbortSignal) => Promise<T>): Promise<T> => {
    if (inStretch.getStore() === true) {
      throw new CatalogError("STORE_UNDER_LEASE", "an object-store call was begun while the lease lock was held");
    }
    return bounded(o.clock, o.timeoutMs, signal, fn);
  };
  return {
    storeId: store.storeId,
    source: (key, bytes, signal) => ({
      size: bytes,
      read: (offset, length) => call(signal, (bound) => getExactly(store, key, { offset, length }, { signal: bound })),
    }),
    head: (key, signal) => call(signal, (bound) => store.head(key, { signal: bound })),
    page: (range, signal) => call(signal, (bound) => collect(store.list({ ...range, signal: bound }))),
  };
}

async function collect<T>(items: AsyncIterable<T>): Promise<readonly T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

async function bounded<T>(
  clock: Clock,
  ms: number,
  outer: AbortSignal | undefined,
  fn: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  throwIfCanceled(outer);
  const controller = new AbortController();
  const bound = { name: "object-store call", ms, knobs: { "limits.storeTimeoutMs": ms } };
  const timer = clock.setTimer(ms, () =>
    controller.abort(new DeadlineExceededError(bound, { outcome: "unknown", note: "the store did not answer" })),
  );
  const onAbort = () => controller.abort(outer?.reason);
  outer?.addEventListener("abort", onAbort, { once: true });
  try {
    return await untilAborted(fn(controller.signal), controller.signal);
  } finally {
    timer.cancel();
    outer?.removeEventListener("abort", onAbort);
  }
}
