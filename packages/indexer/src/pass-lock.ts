import type { LeaseKeeper } from "@holdfast/lease-core";
import { createLimiter, type Limiter } from "@holdfast/object-store";

const locks = new WeakMap<LeaseKeeper, Limiter>();

/**
 * The pass lock of a keeper's catalog: one pass at a time, in the order of asking. It is taken before the lease lock and
 * held around it, never inside it. Indexers that share a keeper share it; two keepers of one catalog keep each other out
 * by the lease.
 */
export function passLock(keeper: LeaseKeeper): Limiter {
  let lock = locks.get(keeper);
  if (lock === undefined) {
    lock = createLimiter(1);
    locks.set(keeper, lock);
  }
  return lock;
}
