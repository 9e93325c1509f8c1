import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { errorCode, type ObjectStore } from "@holdfast/object-store";
import { failed, onDelete, onGet, onHead, onPut } from "../lies.js";
import {
  ok,
  assertAbsent,
  assertFailed,
  bytesOf,
  headOf,
  keysOf,
  open,
  put,
  seed,
  streamed,
  tooLate,
} from "../support.js";
import type { Case, CaseId } from "../types.js";

const late = tooLate();
const { signal: never } = new AbortController();

/** How a call of each method ends: the error, thrown or in the outcome. */
const calls = {
  put: async (store: ObjectStore, signal: AbortSignal): Promise<unknown> => {
    const result = await put(store, "new", "v", "overwrite", { signal });
    return result.outcome === "failed" ? result.error : result.outcome;
  },
  get: async (store: ObjectStore, signal: AbortSignal): Promise<unknown> => thrown(store.get("k", { signal })),
  head: async (store: ObjectStore, signal: AbortSignal): Promise<unknown> => thrown(store.head("k", { signal })),
  delete: async (store: ObjectStore, signal: AbortSignal): Promise<unknown> => thrown(store.delete("k", { signal })),
  list: async (store: ObjectStore, signal: AbortSignal): Promise<unknown> => {
    const list = async (): Promise<void> => {
      for await (const info of store.list({ prefix: "", signal })) assert.fail(info.key);
    };
    return thrown(list());
  },
};
type Method = keyof typeof calls;
type Tell = (real: ObjectStore) => Partial<ObjectStore>;

const thrown = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => "it succeeded",
    (error: unknown) => error,
  );

/** A store one of whose methods does not look at a signal that some test says it should. */
const deaf = (method: Method, when: (signal: AbortSignal) => boolean): Tell => {
  const own = (signal: AbortSignal): AbortSignal => (when(signal) ? never : signal);
  const tell = {
    put: onPut(({ key, body, o, real }) => real.put(key, body, { ...o, signal: own(o.signal) })),
    get: onGet(({ key, o, real }) => real.get(key, { ...o, signal: own(o.signal) })),
    head: onHead(({ key, o, real }) => real.head(key, { signal: own(o.signal) })),
    delete: onDelete(({ key, o, real }) => real.delete(key, { signal: own(o.signal) })),
    list: (real: ObjectStore): Partial<ObjectStore> => ({ list: (o) => real.list({ ...o, signal: own(o.signal) }) }),
  };
  return tell[method];
};
const byDeadline = (signal: AbortSignal): boolean => signal.aborted && errorCode(signal.reason) !== undefined;
const byCaller = (signal: AbortSignal): boolean => signal.aborted && errorCode(signal.reason) === undefined;

const ids: readonly [Method, CaseId, CaseId][] = [
  ["put", "OS-270", "OS-275"],
  ["get", "OS-271", "OS-276"],
  ["head", "OS-272", "OS-277"],
  ["delete", "OS-273", "OS-278"],
  ["list", "OS-274", "OS-279"],
];

/** What an aborted signal does. */
export const signalCases: readonly Case[] = [
  ...ids.map(([method, id]): Case => ({
    id,
    clause: `a ${method} whose signal a deadline has aborted ends with the deadline's own error`,
    lie: { says: `a ${method} does not look at deadlines`, tell: deaf(method, byDeadline) },
    async run({ store }) {
      await seed(store, "k", "v");
      assert.equal(await calls[method](store, AbortSignal.abort(late)), late);
    },
  })),
  ...ids.map(([method, , id]): Case => ({
    id,
    clause: `a ${method} whose signal a caller has aborted ends with CANCELED, the reason as its cause`,
    lie: { says: `a ${method} does not look at its caller's signal`, tell: deaf(method, byCaller) },
    async run({ store }) {
      await seed(store, "k", "v");
      const error = await calls[method](store, AbortSignal.abort("enough"));
      assert.equal(errorCode(error), "CANCELED", String(error));
      assert.equal((error as Error).cause, "enough");
    },
  })),
  {
    id: "OS-280",
    clause: "a put that was aborted before it began writes nothing",
    lie: {
      says: "an aborted put is done all the same",
      tell: onPut(async ({ key, body, o, real }) => {
        if (o.signal.aborted && o.mode === "create") await real.put(key, body, { ...o, signal: never });
        return real.put(key, body, o);
      }),
    },
    async run({ store }) {
      const { create } = store.capabilities;
      const result = await put(store, "k", "v", create ? "create" : "overwrite", { signal: AbortSignal.abort() });
      assertFailed(result, "CANCELED");
      await assertAbsent(store, "k");
    },
  },
  {
    id: "OS-281",
    clause: "a delete that was aborted before it began deletes nothing",
    lie: {
      says: "an aborted delete is done all the same",
      tell: onDelete(async ({ key, o, real }) => {
        await real.delete(key, { signal: never });
        await real.delete(key, o);
      }),
    },
    async run({ store }) {
      await seed(store, "k", "v");
      assert.equal(errorCode(await calls.delete(store, AbortSignal.abort())), "CANCELED");
      assert.notEqual(await headOf(store, "k"), null);
    },
  },
  {
    id: "OS-282",
    clause: "a put whose body stalls ends when it is aborted",
    lie: {
      says: "a put waits for its body",
      tell: onPut(({ key, body, o, real }) =>
        real.put(key, body, { ...o, signal: o.signal.aborted ? o.signal : never }),
      ),
    },
    async run({ store, ends }) {
      const abort = new AbortController();
      const stall = () => {
        abort.abort();
        return new Promise<void>(() => undefined);
      };
      const work = store.put("k", streamed(4, [bytesOf("ab")], stall), { mode: "overwrite", signal: abort.signal });
      const ended = await ends(work);
      ok(ended.status === "fulfilled");
      assertFailed(ended.value, "CANCELED");
      await assertAbsent(store, "k");
    },
  },
  {
    id: "OS-283",
    clause: "an aborted put writes nothing later, when its body goes on",
    lie: {
      says: "an aborted put is finished in the background",
      tell: onPut(async ({ key, body, o, real }) => {
        if (!(body instanceof Uint8Array) && body.size === 2) {
          void real.put(key, body, { ...o, signal: never });
        }
        return real.put(key, body, o);
      }),
    },
    async run({ store, ends }) {
      const abort = new AbortController();
      let goOn = (): void => undefined;
      const stalled = new Promise<void>((resolve) => (goOn = resolve));
      const body = {
        size: 2,
        async *open() {
          abort.abort();
          await stalled;
          yield bytesOf("ab");
        },
      };
      const ended = await ends(store.put("k", body, { mode: "overwrite", signal: abort.signal }));
      ok(ended.status === "fulfilled");
      assertFailed(ended.value, "CANCELED");
      goOn();
      await new Promise((resolve) => setImmediate(resolve));
      await assertAbsent(store, "k");
    },
  },
  {
    id: "OS-284",
    clause: "a listing ends when it is aborted between two objects",
    lie: {
      says: "a listing that has begun goes on",
      tell: (real) => ({
        async *list(o) {
          yield* real.list(o.signal.aborted ? o : { ...o, signal: never });
        },
      }),
    },
    async run({ store }) {
      for (let i = 0; i < 5; i++) await seed(store, `k/${i}`, "v");
      const abort = new AbortController();
      const seen: string[] = [];
      const walk = async () => {
        for await (const { key } of store.list({ prefix: "", signal: abort.signal })) {
          seen.push(key);
          if (seen.length === 2) abort.abort();
        }
      };
      await assert.rejects(walk(), { code: "CANCELED" });
      assert.deepEqual(seen, ["k/0", "k/1"]);
    },
  },
  {
    id: "OS-285",
    clause: "puts leave no listener on the signal",
    lie: {
      says: "every put leaves a listener",
      tell: onPut(({ key, body, o, real }) => {
        if (o.signal !== open) o.signal.addEventListener("abort", () => undefined);
        return real.put(key, body, o);
      }),
    },
    async run({ store }) {
      const { signal } = new AbortController();
      await Promise.all(Array.from({ length: 8 }, (_, i) => put(store, `k/${i}`, "v", "overwrite", { signal })));
      assert.equal(getEventListeners(signal, "abort").length, 0);
    },
  },
  {
    id: "OS-286",
    clause: "reads, listings and deletes leave no listener on the signal",
    lie: {
      says: "every head leaves a listener",
      tell: onHead(({ key, o, real }) => {
        if (o.signal !== open) o.signal.addEventListener("abort", () => undefined);
        return real.head(key, o);
      }),
    },
    async run({ store }) {
      for (const key of ["a", "b", "c"]) await seed(store, key, "v");
      const { signal } = new AbortController();
      await Promise.all([store.get("a", { signal }), store.head("b", { signal }), store.delete("c", { signal })]);
      for await (const info of store.list({ prefix: "", signal })) if (info.key === "a") break;
      assert.equal(getEventListeners(signal, "abort").length, 0);
    },
  },
  {
    id: "OS-287",
    clause: "a signal that is aborted after the put has ended undoes nothing",
    lie: {
      says: "an abort takes back what was put",
      tell: onPut(async ({ key, body, o, real }) => {
        const result = await real.put(key, body, o);
        const undo = () => void real.delete(key, { signal: never });
        if (o.signal !== open && key === "kept") o.signal.addEventListener("abort", undo, { once: true });
        return result;
      }),
    },
    async run({ store }) {
      const abort = new AbortController();
      assert.equal((await put(store, "kept", "v", "overwrite", { signal: abort.signal })).outcome, "created");
      abort.abort();
      assert.deepEqual(await keysOf(store), ["kept"]);
    },
  },
  {
    id: "OS-288",
    clause: "one call's abort is no other's",
    lie: {
      says: "an abort ends every put of the store",
      tell: (real) => {
        let aborted = false;
        return {
          put(key, body, o) {
            aborted ||= o.signal.aborted && key === "first";
            return aborted && key === "second" ? Promise.resolve(failed(late)) : real.put(key, body, o);
          },
        };
      },
    },
    async run({ store }) {
      const results = await Promise.all([
        put(store, "first", "v", "overwrite", { signal: AbortSignal.abort() }),
        put(store, "second", "v", "overwrite"),
      ]);
      assert.deepEqual(
        results.map(({ outcome }) => outcome),
        ["failed", "created"],
      );
    },
  },
];
