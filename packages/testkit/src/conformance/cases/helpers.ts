import assert from "node:assert/strict";
import {
  getExactly,
  listPages,
  probe,
  putVerified,
  resolveUnknownPut,
  writeIdKey,
  type ObjectInfo,
} from "@holdfast/object-store";
import { askingList, onGet, onHead, onPut } from "../lies.js";
import { assertRejects, bytesOf, keysOf, open, readText, seed, textOf } from "../support.js";
import type { Case } from "../types.js";

/** What the helpers need of a store, shown with the helpers themselves. */
export const helperCases: readonly Case[] = [
  {
    id: "OS-290",
    clause: "putVerified recognises its own object by the write id",
    lie: {
      says: "metadata that begins with holdfast- is reserved, and dropped",
      tell: onPut(({ key, body, o, real }) => {
        const kept = Object.entries(o.metadata ?? {}).filter(([name]) => name !== writeIdKey);
        return real.put(key, body, o.metadata === undefined ? o : { ...o, metadata: Object.fromEntries(kept) });
      }),
    },
    async run({ store, other }) {
      if (!store.capabilities.create) return;
      const mine = { writeId: "pack-1", signal: open };
      const first = await putVerified(store, "k", bytesOf("mine"), mine);
      assert.equal(first.outcome, "created");
      assert.deepEqual(await putVerified(other, "k", bytesOf("mine"), mine), first);
    },
  },
  {
    id: "OS-291",
    clause: "putVerified never takes another's object of the same size for its own",
    lie: {
      says: "`exists` tells the metadata of the put that was refused",
      tell: onPut(async ({ key, body, o, real }) => {
        const result = await real.put(key, body, o);
        const echo = result.outcome === "exists" && o.metadata?.[writeIdKey] !== undefined;
        return echo ? { ...result, info: { ...result.info, metadata: o.metadata } } : result;
      }),
    },
    async run({ store, other }) {
      if (!store.capabilities.create) return;
      await putVerified(store, "k", bytesOf("mine"), { writeId: "pack-1", signal: open });
      const alien = await putVerified(other, "k", bytesOf("alie"), { writeId: "pack-2", signal: open });
      assert.equal(alien.outcome, "conflict");
      assert.equal(await readText(store, "k"), "mine");
    },
  },
  {
    id: "OS-292",
    clause: "resolveUnknownPut finds an object of ours that has no bytes",
    lie: {
      says: "head does not see objects without bytes",
      tell: onHead(async ({ key, o, real }) => {
        const info = await real.head(key, o);
        return info?.size === 0 && info.metadata[writeIdKey] !== undefined ? null : info;
      }),
    },
    async run({ store }) {
      const ours = { writeId: "pack-1", signal: open };
      const body = new Uint8Array(0);
      assert.deepEqual(await resolveUnknownPut(store, "k", body, ours), { outcome: "absent" });
      const etag = await seed(store, "k", body, { metadata: { [writeIdKey]: "pack-1" } });
      assert.deepEqual(await resolveUnknownPut(store, "k", body, ours), { outcome: "created", etag });
    },
  },
  {
    id: "OS-293",
    clause: "getExactly of a range that the object does not have is INVALID_RANGE, never padded",
    lie: {
      says: "what a range lacks is filled up with zeros",
      tell: onGet(async ({ key, o, real }) => {
        const { bytes, info } = await real.get(key, o);
        if (o.range === undefined || "suffix" in o.range || o.range.length > 10 || o.range.offset !== 4)
          return { bytes, info };
        const padded = new Uint8Array(o.range.length);
        padded.set(bytes);
        return { bytes: padded, info };
      }),
    },
    async run({ store }) {
      await seed(store, "k", "0123456789");
      const exactly = (length: number) => getExactly(store, "k", { offset: 4, length }, { signal: open });
      assert.equal(textOf(await exactly(6)), "456789");
      await assertRejects(exactly(7), "INVALID_RANGE");
    },
  },
  {
    id: "OS-294",
    clause: "listPages joins to the whole listing",
    lie: {
      says: "pages below two entries are empty",
      tell: askingList((o) => (o.limit === 2 && o.startAfter === "k/3" ? { ...o, startAfter: "z" } : o)),
    },
    async run({ store }) {
      const keys = Array.from({ length: 7 }, (_, i) => `k/${i}`);
      for (const key of keys) await seed(store, key, "v");
      const seen: ObjectInfo[] = [];
      for await (const { infos } of listPages(store, { prefix: "k/", pageSize: 2, signal: open })) seen.push(...infos);
      assert.deepEqual(
        seen.map(({ key }) => key),
        keys,
      );
    },
  },
  {
    id: "OS-295",
    clause: "probe finds nothing wrong, and leaves nothing behind",
    lie: {
      says: "a second object on one key is refused as UNSUPPORTED, in every mode",
      tell: onPut(async ({ key, body, o, real }) => {
        if (key.includes("holdfast-probe") && typeof o.mode === "object") {
          return { outcome: "failed", error: Object.assign(new Error("no"), { code: "UNSUPPORTED" }) };
        }
        return real.put(key, body, o);
      }),
    },
    async run({ store }) {
      assert.equal(await probe(store, { prefix: "p/", signal: open }), store.capabilities);
      assert.deepEqual(await keysOf(store), []);
    },
  },
];
