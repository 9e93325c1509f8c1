import type { ObjectStore } from "@holdfast/object-store";

/** Requests made of a store, by operation. A listing counts once however many pages it takes. */
export type StoreRequests = { put: number; get: number; head: number; list: number };

/** The same store, with its requests counted: what a service costs is in its status. */
export function countingStore(store: ObjectStore): { readonly store: ObjectStore; readonly requests: StoreRequests } {
  const requests: StoreRequests = { put: 0, get: 0, head: 0, list: 0 };
  const counted: ObjectStore = {
    contract: store.contract,
    storeId: store.storeId,
    capabilities: store.capabilities,
    put: (...args) => {
      requests.put += 1;
      return store.put(...args);
    },
    get: (...args) => {
      requests.get += 1;
      return store.get(...args);
    },
    head: (...args) => {
      requests.head += 1;
      return store.head(...args);
    },
    list: (...args) => {
      requests.list += 1;
      return store.list(...args);
    },
    delete: (...args) => store.delete(...args),
  };
  return { store: counted, requests };
}
