import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { errorCode, type ObjectStore } from "@holdfast/object-store";
import type { Case } from "./suite.js";
import { assertAbsent, assertFailed, bytesOf, create, keysOf, open, streamed } from "./support.js";

class TooLate extends Error {
  readonly code = "DEADLINE_EXCEEDED";
}

/** How each method ends: the error, thrown or in the outcome. */
async function endings(store: ObjectStore, signal: AbortSignal): Promise<unknown[]> {
  const put = await store.put("new", bytesOf("v"), { mode: "create", signal });
  const list = async () => {
    for await (const info of store.list({ prefix: "", signal })) assert.fail(info.key);
  };
  const calls = [store.get("k", { signal }), store.head("k", { signal }), store.delete("k", { signal }), list()];
  const thrown = await Promise.all(
    calls.map((call) =>
      call.then(
        () => "it succeeded",
        (error: unknown) => error,
      ),
    ),
  );
  assert.equal(put.outcome, "failed");
  return [put.error, ...thrown];
}

/** What an aborted signal does. */
export const abortCases: readonly Case[] = [
  {
    id: "OS-60",
    clause: "a signal aborted by a deadline ends every call with the deadline's own error, and nothing happens",
    async run({ store }) {
      await create(store, "k", "v");
      const late = new TooLate("5 ms ran out");
      for (const error of await endings(store, AbortSignal.abort(late))) assert.equal(error, late);
      assert.deepEqual(await keysOf(store, { prefix: "" }), ["k"]);
    },
  },
  {
    id: "OS-61",
    clause: "a signal aborted by a caller ends every call with CANCELED, the reason as its cause",
    async run({ store }) {
      await create(store, "k", "v");
      for (const error of await endings(store, AbortSignal.abort("enough"))) {
        assert.equal(errorCode(error), "CANCELED");
        assert.equal((error as Error).cause, "enough");
      }
      assert.deepEqual(await keysOf(store, { prefix: "" }), ["k"]);
    },
  },
  {
    id: "OS-62",
    clause: "a put whose body stalls ends when aborted; nothing is written, then or later",
    async run({ store }) {
      const abort = new AbortController();
      let ended = (): void => undefined;
      const stall = () => {
        abort.abort();
        return new Promise<void>((resolve) => (ended = resolve));
      };
      const body = streamed(4, [bytesOf("ab")], stall);
      assertFailed(await store.put("k", body, { mode: "create", signal: abort.signal }), "CANCELED");
      ended();
      await assertAbsent(store, "k");
      await create(store, "k", "free");
    },
  },
  {
    id: "OS-63",
    clause: "a listing ends when aborted between two objects",
    async run({ store }) {
      for (let i = 0; i < 5; i++) await create(store, `k/${i}`, "v");
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
    id: "OS-64",
    clause: "one signal serves many calls at once: at most one listener while they run, none afterwards",
    async run({ store }) {
      const { signal } = new AbortController();
      const puts = Array.from({ length: 12 }, (_, i) => store.put(`k/${i}`, bytesOf("v"), { mode: "create", signal }));
      assert.ok(getEventListeners(signal, "abort").length <= 1);
      await Promise.all(puts);
      await Promise.all([store.get("k/1", { signal }), store.head("k/2", { signal }), store.delete("k/3", { signal })]);
      for await (const info of store.list({ prefix: "", signal })) assert.ok(info.size === 1);
      assert.equal(getEventListeners(signal, "abort").length, 0);
      assert.equal((await keysOf(store, { prefix: "" })).length, 11);
      assert.equal(open.aborted, false);
    },
  },
];
