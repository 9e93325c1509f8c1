// Goal: a probe that ends early takes its object away, in its own time, and keeps nobody waiting for that. Method: the memory store with a
// read that fails or aborts the probe, and a delete that tells what it was called with.
import { AsyncLocalStorage } from "node:async_hooks";
import { memoryStore, ObjectStoreError, probe, type ObjectStore } from "@holdfast/object-store";
import { afterEach, expect, it, vi } from "vitest";

const denied = new ObjectStoreError("ACCESS_DENIED", "no reading for you");
const { signal: open } = new AbortController();
const settings = { prefix: "p/", random: () => 0.5 };
const key = "p/holdfast-probe-jv9g5yxts";

/** A store whose reads fail after `onGet`, and whose deletes are told of. */
function store(o: { onGet?: () => void; onDelete?: (signal: AbortSignal) => Promise<void> | undefined } = {}) {
  const real = memoryStore();
  let told = (): void => undefined;
  const deleted = new Promise<void>((resolve) => (told = resolve));
  const broken: ObjectStore = {
    contract: 1,
    storeId: "broken",
    capabilities: real.capabilities,
    put: (...args) => real.put(...args),
    get() {
      o.onGet?.();
      return Promise.reject(denied);
    },
    head: (...args) => real.head(...args),
    list: (args) => real.list(args),
    async delete(name, call) {
      await o.onDelete?.(call.signal);
      await real.delete(name, call);
      told();
    },
  };
  return { real, broken, deleted };
}

afterEach(() => void vi.useRealTimers());

// Red when the delete is given the caller's signal, which is aborted: it was refused, and the object stayed.
it("a probe that its signal has ended deletes its object behind it", async () => {
  const abort = new AbortController();
  const { real, broken, deleted } = store({ onGet: () => abort.abort() });
  await expect(probe(broken, { ...settings, signal: abort.signal })).rejects.toBe(denied);
  await deleted;
  expect(await real.head(key, { signal: open })).toBeNull();
});

// Red when the delete is awaited without a look at the caller's signal.
it("the caller of an aborted probe does not wait for the delete", async () => {
  vi.useFakeTimers();
  const abort = new AbortController();
  let asked = (): void => undefined;
  const reached = new Promise<void>((resolve) => (asked = resolve));
  const { broken } = store({
    onGet: () => abort.abort(),
    onDelete() {
      asked();
      return new Promise<void>(() => undefined);
    },
  });
  let error: unknown;
  void probe(broken, { ...settings, signal: abort.signal }).catch((thrown: unknown) => (error = thrown));
  await reached;
  await vi.advanceTimersByTimeAsync(0);
  expect(error).toBe(denied);
});

// Red, and never ending, without a bound of the delete's own.
it("a delete that never ends is waited for 5 s, and its signal aborted then", async () => {
  vi.useFakeTimers();
  let seen: AbortSignal | undefined;
  let asked = (): void => undefined;
  const reached = new Promise<void>((resolve) => (asked = resolve));
  const { broken } = store({
    onDelete(signal) {
      seen = signal;
      asked();
      return new Promise<void>(() => undefined);
    },
  });
  let ended = false;
  const probed = probe(broken, { ...settings, signal: open }).finally(() => (ended = true));
  const rejected = expect(probed).rejects.toBe(denied);
  await reached;
  await vi.advanceTimersByTimeAsync(4_999);
  expect([ended, seen?.aborted]).toEqual([false, false]);
  await vi.advanceTimersByTimeAsync(1);
  await rejected;
  expect(seen?.aborted).toBe(true);
  expect(vi.getTimerCount()).toBe(0);
});

it("a delete that ends leaves no timer", async () => {
  vi.useFakeTimers();
  await expect(probe(store().broken, { ...settings, signal: open })).rejects.toBe(denied);
  expect(vi.getTimerCount()).toBe(0);
});

// Red when the delete is called as it is: a client that is bound to the scope of its caller would refuse it once the scope has ended.
it("the delete belongs to no scope of its caller", async () => {
  const scope = new AsyncLocalStorage<string>();
  const scopes: (string | undefined)[] = [];
  const { broken } = store({
    onDelete() {
      scopes.push(scope.getStore());
      return undefined;
    },
  });
  await scope.run("the caller's", () => expect(probe(broken, { ...settings, signal: open })).rejects.toBe(denied));
  expect(scopes).toEqual([undefined]);
});

// Red when the first look at the signal is the store's: the clean-up would be sent by a probe that has sent nothing.
it("a signal that is aborted from the start sends nothing", async () => {
  let deletes = 0;
  const { broken } = store({
    onDelete() {
      deletes++;
      return undefined;
    },
  });
  await expect(probe(broken, { ...settings, signal: AbortSignal.abort() })).rejects.toMatchObject({ code: "CANCELED" });
  expect(deletes).toBe(0);
});
