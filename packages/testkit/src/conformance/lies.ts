/** Words for lies: each replaces one method of a store, and has the honest one to fall back upon. */
import { collectBody, type Body, type ObjectInfo, type ObjectStore, type PutResult } from "@holdfast/object-store";

type Put = ObjectStore["put"];
type Get = ObjectStore["get"];
type PutArgs = {
  readonly key: string;
  readonly body: Body;
  readonly o: Parameters<Put>[2];
  readonly real: ObjectStore;
};
type GetArgs = { readonly key: string; readonly o: Parameters<Get>[1]; readonly real: ObjectStore };
type CallArgs = { readonly key: string; readonly o: Parameters<ObjectStore["head"]>[1]; readonly real: ObjectStore };
type ListArgs = Parameters<ObjectStore["list"]>[0];
type Tell = (real: ObjectStore) => Partial<ObjectStore>;

export const onPut =
  (put: (call: PutArgs) => Promise<PutResult>): Tell =>
  (real) => ({ put: (key, body, o) => put({ key, body, o, real }) });

export const onGet =
  (get: (call: GetArgs) => ReturnType<Get>): Tell =>
  (real) => ({ get: (key, o) => get({ key, o, real }) });

export const onHead =
  (head: (call: CallArgs) => Promise<ObjectInfo | null>): Tell =>
  (real) => ({ head: (key, o) => head({ key, o, real }) });

export const onDelete =
  (remove: (call: CallArgs) => Promise<void>): Tell =>
  (real) => ({ delete: (key, o) => remove({ key, o, real }) });

/** A listing made of the honest one, whole, by a function. */
export const onList =
  (change: (infos: readonly ObjectInfo[], o: ListArgs) => readonly ObjectInfo[]): Tell =>
  (real) => ({
    async *list(o) {
      yield* change(await all(real.list(o)), o);
    },
  });

/** A listing that asks the honest store for something else. */
export const askingList =
  (change: (o: ListArgs, real: ObjectStore) => ListArgs): Tell =>
  (real) => ({
    async *list(o) {
      yield* real.list(change(o, real));
    },
  });

/** A ranged or whole read that asks the honest store for something else. */
export const askingGet = (change: (o: Parameters<Get>[1]) => Parameters<Get>[1]): Tell =>
  onGet(({ key, o, real }) => real.get(key, change(o)));

/** A put that gives the honest store something else. */
export const givingPut = (change: (o: Parameters<Put>[2]) => Parameters<Put>[2]): Tell =>
  onPut(({ key, body, o, real }) => real.put(key, body, change(o)));

/** A put whose bytes are changed on the way. */
export const changingBytes = (change: (bytes: Uint8Array, body: Body) => Uint8Array): Tell =>
  onPut(async ({ key, body, o, real }) => {
    try {
      return await real.put(key, change(await collectBody(body, o), body), o);
    } catch (error) {
      return { outcome: "failed", error: error as Error };
    }
  });

/** A store that takes one key for another, in every method. */
export const keysAs =
  (as: (key: string) => string): Tell =>
  (real) => ({
    put: (key, body, o) => real.put(as(key), body, o),
    get: (key, o) => real.get(as(key), o),
    head: (key, o) => real.head(as(key), o),
    delete: (key, o) => real.delete(as(key), o),
  });

export async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
}

/** A failed put, as the contract words it. */
export const failed = (error: unknown): PutResult => ({ outcome: "failed", error: error as Error });
