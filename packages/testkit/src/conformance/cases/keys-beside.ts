import assert from "node:assert/strict";
import { ObjectStoreError } from "@holdfast/object-store";
import { failed, onDelete, onPut } from "../lies.js";
import { ok, headOf, inByteOrder, keysOf, readText, remove, seed } from "../support.js";
import type { Case, CaseId, CasePlace, Lie } from "../types.js";

const invalidKey = new ObjectStoreError("INVALID_KEY", "this store does not take such keys");

/** Each key is put, listed, looked at, read and deleted, and none of them is another. */
const roundTrip =
  (keys: readonly string[]) =>
  async ({ store, other }: CasePlace): Promise<void> => {
    for (const key of keys) await seed(store, key, `object of ${key}`);
    assert.deepEqual(await keysOf(other), inByteOrder(keys));
    for (const key of keys) {
      assert.equal((await headOf(other, key))?.key, key);
      assert.equal(await readText(other, key), `object of ${key}`);
      ok((await keysOf(store, { prefix: key })).includes(key));
    }
    const [first = "", ...rest] = keys;
    await remove(store, first);
    assert.equal(await headOf(store, first), null);
    assert.deepEqual(await keysOf(store), inByteOrder(rest));
  };

const beside = (id: CaseId, clause: string, lie: Lie, run: Case["run"]): Case => ({ id, clause, lie, run });
const isBelow = (key: string, above: string): boolean => above.startsWith("p") && key.startsWith(`${above}/`);

/** Keys that are also folders, where there are folders. */
export const besideKeys: readonly Case[] = [
  beside(
    "OS-251",
    "a key below a key is a key",
    {
      says: "below an object nothing can be",
      tell: onPut(async ({ key, body, o, real }) => {
        const above = key.startsWith("p/") ? await real.head("p", { signal: o.signal }).catch(() => null) : null;
        return above === null ? real.put(key, body, o) : failed(invalidKey);
      }),
    },
    roundTrip(["p", "p/q", "p/q/r"]),
  ),
  beside(
    "OS-252",
    "a key above a key is a key",
    {
      says: "above an object nothing can be",
      tell: onPut(async ({ key, body, o, real }) => {
        const keys = key === "p" ? await keysOf(real, { prefix: "p/" }) : [];
        return keys.length === 0 ? real.put(key, body, o) : failed(invalidKey);
      }),
    },
    roundTrip(["p/q/r", "p/q", "p"]),
  ),
  beside(
    "OS-253",
    "deleting a key leaves what is below it",
    {
      says: "a delete takes what is below with it",
      tell: onDelete(async ({ key, o, real }) => {
        for (const below of await keysOf(real, { prefix: key })) if (isBelow(below, key)) await real.delete(below, o);
        await real.delete(key, o);
      }),
    },
    async ({ store }) => {
      for (const key of ["p", "p/q"]) await seed(store, key, key);
      await remove(store, "p");
      assert.deepEqual(await keysOf(store), ["p/q"]);
    },
  ),
  beside(
    "OS-254",
    "deleting the last key below leaves the key above",
    {
      says: "an empty folder goes with its last object",
      tell: onDelete(async ({ key, o, real }) => {
        await real.delete(key, o);
        if (key === "p/q") await real.delete("p/", o);
      }),
    },
    async ({ store }) => {
      for (const key of ["p/", "p/q"]) await seed(store, key, key);
      await remove(store, "p/q");
      assert.deepEqual(await keysOf(store), ["p/"]);
    },
  ),
  beside(
    "OS-255",
    "deleting what is only a folder deletes nothing",
    {
      says: "deleting a folder deletes what is in it",
      tell: onDelete(async ({ key, o, real }) => {
        const there = await real.head(key, o);
        if (there === null && key === "f/")
          for (const below of await keysOf(real, { prefix: key })) await real.delete(below, o);
        await real.delete(key, o);
      }),
    },
    async ({ store }) => {
      await seed(store, "f/q", "v");
      for (const key of ["f", "f/"]) await remove(store, key);
      assert.deepEqual(await keysOf(store), ["f/q"]);
    },
  ),
];
