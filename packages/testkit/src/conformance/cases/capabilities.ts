import assert from "node:assert/strict";
import { ObjectStoreError, type Capabilities, type ObjectStore, type PutOptions } from "@holdfast/object-store";
import { failed, onPut } from "../lies.js";
import { ok, assertAbsent, assertFailed, bytesOf, open, put, seed, streamed } from "../support.js";
import type { Case } from "../types.js";

/** A store that declares something else than it does. */
const declaring =
  (declared: Partial<Capabilities>, more: (real: ObjectStore) => Partial<ObjectStore> = () => ({})) =>
  (real: ObjectStore): Partial<ObjectStore> => ({ capabilities: { ...real.capabilities, ...declared }, ...more(real) });

const unsupported = (): ReturnType<ObjectStore["put"]> =>
  Promise.resolve(failed(new ObjectStoreError("UNSUPPORTED", "this store does not")));
const refusing = (refused: (mode: PutOptions["mode"]) => boolean) =>
  onPut(({ key, body, o, real }) => (refused(o.mode) ? unsupported() : real.put(key, body, o)));
const invalidKey = new ObjectStoreError("INVALID_KEY", "too long for this store");

/** What a store declares, both sides of it: what is declared works, what is not is refused. */
export const capabilityCases: readonly Case[] = [
  {
    id: "OS-100",
    clause: "the contract is 1",
    lie: { says: "another contract", tell: () => ({ contract: 2 as 1 }) },
    run: async ({ store }) => assert.equal(await Promise.resolve(store.contract), 1),
  },
  {
    id: "OS-101",
    clause: "a store has an id, the same on every handle",
    lie: {
      says: "every handle has an id of its own",
      tell: (() => {
        let handles = 0;
        return () => ({ storeId: `handle-${handles++}` });
      })(),
    },
    async run({ store, other }) {
      ok((await Promise.resolve(store.storeId.length)) > 0);
      assert.equal(store.storeId, other.storeId);
    },
  },
  {
    id: "OS-102",
    clause: "the limits are whole numbers, and no key may be longer than 1,024 bytes",
    lie: { says: "keys of 2,000 bytes", tell: declaring({ maxKeyBytes: 2000 }) },
    async run({ store }) {
      const { maxKeyBytes, maxObjectBytes } = await Promise.resolve(store.capabilities);
      ok(Number.isSafeInteger(maxKeyBytes) && maxKeyBytes >= 1 && maxKeyBytes <= 1024);
      ok(Number.isSafeInteger(maxObjectBytes) && maxObjectBytes >= 1);
    },
  },
  {
    id: "OS-103",
    clause: "capabilities are fixed for the store's lifetime",
    lie: {
      says: "the limit of objects shrinks with every put",
      tell: (real) => {
        let puts = 0;
        return {
          get capabilities() {
            return { ...real.capabilities, maxObjectBytes: real.capabilities.maxObjectBytes - puts };
          },
          put(key, body, o) {
            puts++;
            return real.put(key, body, o);
          },
        };
      },
    },
    async run({ store }) {
      const before = { ...store.capabilities };
      await seed(store, "k", "v");
      assert.deepEqual({ ...store.capabilities }, before);
    },
  },
  {
    id: "OS-104",
    clause: "declared, create is not UNSUPPORTED",
    lie: { says: "create is declared and refused", tell: refusing((mode) => mode === "create") },
    async run({ store }) {
      if (store.capabilities.create) assert.equal((await put(store, "k", "v")).outcome, "created");
    },
  },
  {
    id: "OS-105",
    clause: "undeclared, create is UNSUPPORTED and writes nothing",
    lie: { says: "create is not declared and works", tell: declaring({ create: false }) },
    async run({ store }) {
      if (store.capabilities.create) return;
      assertFailed(await put(store, "k", "v"), "UNSUPPORTED");
      await assertAbsent(store, "k");
    },
  },
  {
    id: "OS-106",
    clause: "declared, ifMatch is not UNSUPPORTED",
    lie: {
      says: "ifMatch is declared and refused where nothing is",
      tell: refusing((mode) => typeof mode === "object"),
    },
    async run({ store }) {
      if (!store.capabilities.ifMatch) return;
      assertFailed(await put(store, "k", "v", { ifMatch: "x" }), "PRECONDITION_FAILED");
      const etag = await seed(store, "k", "v");
      assert.equal((await put(store, "k", "w", { ifMatch: etag })).outcome, "created");
    },
  },
  {
    id: "OS-107",
    clause: "undeclared, ifMatch is UNSUPPORTED and writes nothing",
    lie: { says: "ifMatch is not declared and works", tell: declaring({ ifMatch: false }) },
    async run({ store }) {
      if (store.capabilities.ifMatch) return;
      const etag = await seed(store, "k", "v");
      assertFailed(await put(store, "k", "w", { ifMatch: etag }), "UNSUPPORTED");
    },
  },
  {
    id: "OS-108",
    clause: "undeclared, ifMatch where nothing is is UNSUPPORTED too",
    lie: {
      says: "an undeclared ifMatch is taken for a failed condition where nothing is",
      tell: declaring({ ifMatch: false }, (real) =>
        onPut(async ({ key, body, o }) => {
          const replaces = typeof o.mode === "object";
          return replaces && (await real.head(key, o)) !== null ? unsupported() : real.put(key, body, o);
        })(real),
      ),
    },
    async run({ store }) {
      if (store.capabilities.ifMatch) return;
      assertFailed(await put(store, "k", "w", { ifMatch: "x" }), "UNSUPPORTED");
    },
  },
  {
    id: "OS-109",
    clause: "undeclared, metadata is UNSUPPORTED, not dropped",
    lie: {
      says: "metadata is not declared and dropped",
      tell: declaring({ metadata: false }, (real) =>
        onPut(({ key, body, o: { mode, signal, contentType } }) => {
          return contentType === undefined ? real.put(key, body, { mode, signal }) : unsupported();
        })(real),
      ),
    },
    async run({ store }) {
      if (store.capabilities.metadata) return;
      assertFailed(await put(store, "k", "v", "overwrite", { metadata: { a: "1" } }), "UNSUPPORTED");
      await assertAbsent(store, "k");
    },
  },
  {
    id: "OS-110",
    clause: "undeclared, a content type is UNSUPPORTED, not dropped",
    lie: {
      says: "without metadata a content type is dropped",
      tell: declaring({ metadata: false }, (real) =>
        onPut(({ key, body, o: { mode, signal, metadata } }) => {
          return metadata === undefined ? real.put(key, body, { mode, signal }) : unsupported();
        })(real),
      ),
    },
    async run({ store }) {
      if (store.capabilities.metadata) return;
      const o = { mode: "overwrite", contentType: "text/plain", signal: open } as const;
      assertFailed(await store.put("k", bytesOf("v"), o), "UNSUPPORTED");
    },
  },
  {
    id: "OS-111",
    clause: "declared, metadata is kept",
    lie: {
      says: "metadata is declared and dropped",
      tell: onPut(({ key, body, o, real }) => real.put(key, body, { mode: o.mode, signal: o.signal })),
    },
    async run({ store }) {
      if (!store.capabilities.metadata) return;
      await seed(store, "k", "v", { metadata: { a: "1" } });
      assert.equal((await store.get("k", { signal: open })).info.metadata["a"], "1");
    },
  },
  {
    id: "OS-112",
    clause: "more bytes than declared possible are TOO_LARGE before the body is opened",
    lie: {
      says: "a body that is too large is opened to see",
      tell: onPut(async ({ key, body, o, real }) => {
        const result = await real.put(key, body, o);
        const large = "error" in result && result.error.message.startsWith("[TOO_LARGE]");
        if (large && !(body instanceof Uint8Array)) for await (const piece of body.open()) piece.fill(0);
        return result;
      }),
    },
    async run({ store }) {
      const body = streamed(store.capabilities.maxObjectBytes + 1, []);
      assertFailed(await store.put("k", body, { mode: "overwrite", signal: open }), "TOO_LARGE");
      assert.equal(body.opened(), 0);
    },
  },
  {
    id: "OS-113",
    clause: "a size that is no whole number of bytes is TOO_LARGE, and nothing is written",
    lie: {
      says: "sizes are rounded",
      tell: onPut(({ key, body, o, real }) =>
        body instanceof Uint8Array
          ? real.put(key, body, o)
          : real.put(key, { size: Math.max(0, Math.floor(body.size)), open: () => body.open() }, o),
      ),
    },
    async run({ store }) {
      for (const size of [-1, 1.5, NaN]) {
        const body = streamed(size, [new Uint8Array(Math.max(0, Math.floor(size) || 0))]);
        assertFailed(await store.put("k", body, { mode: "overwrite", signal: open }), "TOO_LARGE");
      }
      await assertAbsent(store, "k");
    },
  },
  {
    id: "OS-114",
    clause: "a key of exactly the declared length is taken",
    lie: {
      says: "the longest key is one byte too long",
      tell: onPut(({ key, body, o, real }) =>
        Buffer.byteLength(key) < real.capabilities.maxKeyBytes
          ? real.put(key, body, o)
          : Promise.resolve(failed(invalidKey)),
      ),
    },
    async run({ store }) {
      const key = "k".repeat(store.capabilities.maxKeyBytes);
      assert.equal((await put(store, key, "v", "overwrite")).outcome, "created");
    },
  },
  {
    id: "OS-115",
    clause: "a key one byte longer than declared is INVALID_KEY",
    lie: { says: "keys may be longer than declared", tell: declaring({ maxKeyBytes: 500 }) },
    async run({ store }) {
      const key = "k".repeat(store.capabilities.maxKeyBytes + 1);
      assertFailed(await put(store, key, "v", "overwrite"), "INVALID_KEY");
    },
  },
  {
    id: "OS-116",
    clause: "a put of a mode that does not exist is UNSUPPORTED and writes nothing",
    lie: {
      says: "an unknown mode overwrites",
      tell: onPut(({ key, body, o, real }) => {
        const known = o.mode === "create" || typeof o.mode === "object" || (o.mode as unknown) === undefined;
        return real.put(key, body, known ? o : { ...o, mode: "overwrite" });
      }),
    },
    async run({ store }) {
      await seed(store, "k", "before");
      assertFailed(await put(store, "k", "after", "Create" as "create"), "UNSUPPORTED");
      assert.equal((await store.get("k", { signal: open })).info.size, 6);
    },
  },
  {
    id: "OS-117",
    clause: "a put without a mode is UNSUPPORTED and writes nothing",
    lie: {
      says: "without a mode it creates",
      tell: onPut(({ key, body, o, real }) => {
        return real.put(key, body, (o.mode as unknown) === undefined ? { ...o, mode: "create" } : o);
      }),
    },
    async run({ store }) {
      assertFailed(
        await store.put("k", bytesOf("v"), { signal: open } as unknown as Parameters<ObjectStore["put"]>[2]),
        "UNSUPPORTED",
      );
      await assertAbsent(store, "k");
    },
  },
];
