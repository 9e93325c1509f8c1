import type { ObjectStore } from "@holdfast/object-store";

/** Something that a test waits for, and something that waits for the test. */
export class Gate {
  #open!: () => void;
  #reached!: () => void;
  readonly opened = new Promise<void>((resolve) => (this.#open = resolve));
  readonly reached = new Promise<void>((resolve) => (this.#reached = resolve));

  /** Called by what is to be held: tells the test, and waits until it opens the gate. */
  async pass(): Promise<void> {
    this.#reached();
    await this.opened;
  }

  open(): void {
    this.#open();
  }
}

/** The same store, with something done before each call of the named methods. */
export function interposed(
  store: ObjectStore,
  before: Partial<Record<"get" | "head" | "list", (key: string) => Promise<void> | void>>,
): ObjectStore {
  return {
    contract: 1,
    storeId: store.storeId,
    capabilities: store.capabilities,
    put: (key, body, o) => store.put(key, body, o),
    async get(key, o) {
      await before.get?.(key);
      return store.get(key, o);
    },
    async head(key, o) {
      await before.head?.(key);
      return store.head(key, o);
    },
    async *list(o) {
      await before.list?.(o.startAfter ?? o.prefix);
      yield* store.list(o);
    },
    delete: (key, o) => store.delete(key, o),
  };
}
