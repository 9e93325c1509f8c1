import assert from "node:assert/strict";
import { bodySize, type Body, type ObjectInfo } from "@holdfast/object-store";
import { changingBytes, keysAs, onGet, onHead, onList, onPut } from "../lies.js";
import { ok, assertFailed, headOf, infosOf, keysOf, open, put, readText, seed } from "../support.js";
import type { Case } from "../types.js";

const isStream = (body: Body): boolean => !(body instanceof Uint8Array);

/** The bytes of a put, and what is told about them. */
export const putBytesCases: readonly Case[] = [
  {
    id: "OS-001",
    clause: "what was created is read back, byte for byte",
    lie: { says: "the last byte is another", tell: changingBytes((bytes) => bytes.map((b, i) => (i > 3 ? b ^ 1 : b))) },
    async run({ store }) {
      await seed(store, "k", "hello");
      assert.equal(await readText(store, "k"), "hello");
    },
  },
  {
    id: "OS-002",
    clause: "head tells the size of what was created",
    lie: {
      says: "head tells sizes in blocks of 512",
      tell: onHead(async ({ key, o, real }) => {
        const info = await real.head(key, o);
        return info && { ...info, size: Math.ceil(info.size / 512) * 512 };
      }),
    },
    async run({ store }) {
      await seed(store, "k", "hello");
      assert.equal((await headOf(store, "k"))?.size, 5);
    },
  },
  {
    id: "OS-003",
    clause: "the etag of a put is the etag that head tells",
    lie: {
      says: "a put answers with a weak etag",
      tell: onPut(async ({ key, body, o, real }) => {
        const result = await real.put(key, body, o);
        return result.outcome === "created" ? { ...result, etag: `W/${result.etag}` } : result;
      }),
    },
    async run({ store }) {
      const etag = await seed(store, "k", "hello");
      assert.equal((await headOf(store, "k"))?.etag, etag);
    },
  },
  {
    id: "OS-004",
    clause: "the info of a get is the info of head",
    lie: {
      says: "a get does not tell the time",
      tell: onGet(async ({ key, o, real }) => {
        const { bytes, info } = await real.get(key, o);
        return { bytes, info: { ...info, modifiedAtMs: 0 } };
      }),
    },
    async run({ store }) {
      await seed(store, "k", "hello", { metadata: { a: "1" } });
      assert.deepEqual((await store.get("k", { signal: open })).info, await headOf(store, "k"));
    },
  },
  {
    id: "OS-005",
    clause: "etags are told without quotes",
    lie: {
      says: "etags keep the quotes of HTTP, everywhere",
      tell: (real) => {
        const quoted = (info: ObjectInfo): ObjectInfo => ({ ...info, etag: `"${info.etag}"` });
        return {
          async put(key, body, o) {
            const { mode } = o;
            const bare = typeof mode === "object" ? { ifMatch: mode.ifMatch.replaceAll('"', "") } : mode;
            const result = await real.put(key, body, { ...o, mode: bare });
            if (result.outcome === "created") return { ...result, etag: `"${result.etag}"` };
            return result.outcome === "exists" ? { ...result, info: quoted(result.info) } : result;
          },
          async get(key, o) {
            const ifMatch = o.ifMatch === undefined ? {} : { ifMatch: o.ifMatch.replaceAll('"', "") };
            const { bytes, info } = await real.get(key, { ...o, ...ifMatch });
            return { bytes, info: quoted(info) };
          },
          async head(key, o) {
            const info = await real.head(key, o);
            return info && quoted(info);
          },
          async *list(o) {
            for await (const info of real.list(o)) yield quoted(info);
          },
        };
      },
    },
    async run({ store }) {
      const etag = await seed(store, "k", "hello");
      ok(etag.length > 0 && !etag.includes('"'), etag);
    },
  },
  {
    id: "OS-006",
    clause: "an empty object is an object",
    lie: {
      says: "what is empty is not stored",
      tell: onPut(async ({ key, body, o, real }) =>
        bodySize(body) === 0 && o.mode === "create" ? { outcome: "created", etag: "none" } : real.put(key, body, o),
      ),
    },
    async run({ store }) {
      await seed(store, "k", "");
      const { bytes, info } = await store.get("k", { signal: open });
      assert.equal(bytes.byteLength, 0);
      assert.equal(info.size, 0);
    },
  },
  {
    id: "OS-031",
    clause: "a put never rejects, whatever it is given",
    lie: {
      says: "a put rejects when its key is refused",
      tell: onPut(async ({ key, body, o, real }) => {
        const result = await real.put(key, body, o);
        if ("error" in result && result.error.message.startsWith("[INVALID_KEY]")) throw result.error;
        return result;
      }),
    },
    async run({ store }) {
      assertFailed(await put(store, "a\u0000b", "v", "overwrite"), "INVALID_KEY");
    },
  },
  {
    id: "OS-032",
    clause: "what one put wrote is one object in a listing, with its size",
    lie: { says: "sizes in listings are 0", tell: onList((infos) => infos.map((info) => ({ ...info, size: 0 }))) },
    async run({ store }) {
      await seed(store, "k", "hello");
      assert.deepEqual(
        (await infosOf(store)).map(({ key, size }) => [key, size]),
        [["k", 5]],
      );
    },
  },
  {
    id: "OS-033",
    clause: "puts of many keys at once keep each object's own bytes",
    lie: {
      says: "puts at the same time share a buffer",
      tell: (real) => {
        let running = 0;
        let shared: Body | null = null;
        return {
          async put(key, body, o) {
            running++;
            shared = body;
            await Promise.resolve();
            const mine = running > 10 && isStream(body) === isStream(shared) ? shared : body;
            try {
              return await real.put(key, mine, o);
            } finally {
              running--;
            }
          },
        };
      },
    },
    async run({ store }) {
      const keys = Array.from({ length: 16 }, (_, i) => `k/${i}`);
      await Promise.all(keys.map((key) => put(store, key, `of ${key}`, "overwrite")));
      for (const key of keys) assert.equal(await readText(store, key), `of ${key}`);
    },
  },
  {
    id: "OS-034",
    clause: "a key is not a hash: keys that agree in their first 64 letters are different",
    lie: {
      says: "a name is its first 64 letters",
      tell: keysAs((key) => (key.startsWith("long/") ? key.slice(0, 64) : key)),
    },
    async run({ store }) {
      const stem = `long/${"x".repeat(80)}`;
      await seed(store, `${stem}1`, "one");
      await seed(store, `${stem}2`, "two");
      assert.equal(await readText(store, `${stem}1`), "one");
      assert.deepEqual(await keysOf(store), [`${stem}1`, `${stem}2`]);
    },
  },
];
