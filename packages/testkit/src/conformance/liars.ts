import { memoryStore, type ObjectStore } from "@holdfast/object-store";
import { caseGroups } from "./cases/index.js";
import { faultyWire } from "./reference/faulty-wire.js";
import { referenceStore } from "./reference/store.js";
import { serve } from "./reference/wire.js";
import type { CaseId, Lie, Place } from "./types.js";

/** A store with one lie. */
export type Liar = {
  /** The case whose clause it breaks; others may fail on it too. */
  readonly breaks: CaseId;
  /** The clause. */
  readonly clause: string;
  /** What it does instead. */
  readonly says: string;
  /** A fresh place of it, for the suite or for a test of your own: whoever uses stores should notice some of these. */
  open(): Promise<Place>;
};

/** The lying stores, one for each case: the memory store with one lie, or the suite's own client over it with one mistake. */
export const lyingStores: readonly Liar[] = Object.values(caseGroups)
  .flat()
  .map(({ id, clause, lie }) => ({ breaks: id, clause, says: lie.says, open: () => Promise.resolve(placeOf(lie)) }));

function placeOf(lie: Lie): Place {
  const real = memoryStore();
  const dispose = (): Promise<void> => Promise.resolve();
  if ("tell" in lie) return { store: lyingStore(real, lie.tell), other: lyingStore(real, lie.tell), dispose };
  const { wire, faults } = faultyWire(serve(real));
  const { storeId, capabilities } = real;
  return { store: referenceStore(wire, { storeId, capabilities, lie: lie.client }), faults, dispose };
}

function lyingStore(real: ObjectStore, tell: (real: ObjectStore) => Partial<ObjectStore>): ObjectStore {
  const honest: ObjectStore = {
    contract: 1,
    storeId: real.storeId,
    capabilities: real.capabilities,
    put: (...args) => real.put(...args),
    get: (...args) => real.get(...args),
    head: (...args) => real.head(...args),
    list: (o) => real.list(o),
    delete: (...args) => real.delete(...args),
  };
  // Not spread: one of the lies is a capability that changes.
  return Object.defineProperties(honest, Object.getOwnPropertyDescriptors(tell(real)));
}
