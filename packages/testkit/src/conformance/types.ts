import type { ObjectStore } from "@holdfast/object-store";
import type { Fault, FaultInjector, FaultKind, Injected } from "./faults.js";
import type { ReferenceLie } from "./reference/lies.js";

/** What the suite needs of a test runner; `{ describe, it }` of vitest, node:test, mocha or jest fits. */
export type Runner = {
  describe(name: string, body: () => void): void;
  it(name: string, body: () => Promise<void>): void;
};

/** The stable name of a case. Ids never change their meaning; a case that goes leaves its id unused. */
export type CaseId = `OS-${number}`;

/** A place with nothing in it, for one case. */
export type Place = {
  readonly store: ObjectStore;
  /** A second handle on the same objects, as another process would have; default the store itself. */
  readonly other?: ObjectStore;
  /** Breaks the wire between `store` and its server; without it the cases under faults run on the suite's own client over `store`. */
  readonly faults?: FaultInjector;
  dispose(): Promise<void>;
};

/** What a case works with. */
export type CasePlace = {
  readonly store: ObjectStore;
  readonly other: ObjectStore;
  /** The same objects without any fault in between, to see what really happened. */
  readonly raw: ObjectStore;
  /** The next request that fits is treated as the fault says; only in cases that name it in `faults`. */
  readonly inject: (fault: Fault) => Injected;
  /** The end of some work, whichever; fails when it has not come after the suite's patience. */
  readonly ends: <T>(work: Promise<T>) => Promise<PromiseSettledResult<T>>;
};

/** A store's one lie: what it does instead of the contract, over an honest store or inside the suite's own client. */
export type Lie = { readonly says: string } & (
  | {
      /** Called once for each handle on the store. */
      readonly tell: (real: ObjectStore) => Partial<ObjectStore>;
    }
  | { readonly client: ReferenceLie }
);

/** One clause of the contract: a stable id, a sentence, what shows it, and a lie that breaks it. */
export type Case = {
  readonly id: CaseId;
  readonly clause: string;
  /** What has to be broken on the way for this case. */
  readonly faults?: readonly FaultKind[];
  readonly lie: Lie;
  run(place: CasePlace): Promise<void>;
};
