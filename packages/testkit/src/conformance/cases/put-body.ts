import assert from "node:assert/strict";
import { bodySize, collectBody, type Body } from "@holdfast/object-store";
import { changingBytes, failed, onPut } from "../lies.js";
import { ok, assertAbsent, assertFailed, bytesOf, open, patterned, readText, seed, streamed } from "../support.js";
import type { Case } from "../types.js";

const isStream = (body: Body): boolean => !(body instanceof Uint8Array);

/** The body of a put. */
export const putBodyCases: readonly Case[] = [
  {
    id: "OS-007",
    clause: "a body of several pieces is stored as their concatenation",
    lie: {
      says: "of a body in pieces the first is kept",
      tell: onPut(async ({ key, body, o, real }) => {
        if (body instanceof Uint8Array) return real.put(key, body, o);
        try {
          await collectBody(body, o);
          for await (const piece of body.open()) return await real.put(key, piece, o);
        } catch (error) {
          return failed(error);
        }
        return real.put(key, body, o);
      }),
    },
    async run({ store }) {
      await seed(store, "k", streamed(6, [bytesOf("ab"), bytesOf("cd"), bytesOf("ef")]));
      assert.equal(await readText(store, "k"), "abcdef");
    },
  },
  {
    id: "OS-008",
    clause: "an empty piece is not the end of a body",
    lie: {
      says: "an empty piece ends a body",
      tell: onPut(({ key, body, o, real }) => {
        if (body instanceof Uint8Array) return real.put(key, body, o);
        const open = async function* () {
          for await (const piece of body.open()) {
            if (piece.byteLength === 0) return;
            yield piece;
          }
        };
        return real.put(key, { size: body.size, open }, o);
      }),
    },
    async run({ store }) {
      await seed(store, "k", streamed(6, [bytesOf("ab"), bytesOf(""), bytesOf("cdef")]));
      assert.equal(await readText(store, "k"), "abcdef");
    },
  },
  {
    id: "OS-009",
    clause: "a body is opened anew for each put, from its start",
    lie: {
      says: "a body is opened once, and later puts of it get nothing",
      tell: (real) => {
        const opened = new WeakSet();
        return {
          put(key, body, o) {
            const empty = { size: bodySize(body), open: () => streamed(0, []).open() };
            if (!isStream(body)) return real.put(key, body, o);
            const again = opened.has(body);
            opened.add(body);
            return real.put(key, again ? empty : body, o);
          },
        };
      },
    },
    async run({ store }) {
      const body = streamed(3, [bytesOf("abc")]);
      await seed(store, "one", body);
      await seed(store, "two", body);
      assert.equal(await readText(store, "two"), "abc");
    },
  },
  {
    id: "OS-010",
    clause: "a body that gives less than it declared is BODY_MISMATCH, and nothing is written",
    lie: {
      says: "what a body lacks is filled up with zeros",
      tell: onPut(async ({ key, body, o, real }) => {
        if (body instanceof Uint8Array) return real.put(key, body, o);
        const bytes = new Uint8Array(body.size);
        let at = 0;
        try {
          for await (const piece of body.open()) {
            if (at + piece.length > body.size) return await real.put(key, body, o);
            bytes.set(piece, at);
            at += piece.length;
          }
        } catch {
          return real.put(key, body, o);
        }
        return real.put(key, bytes, o);
      }),
    },
    async run({ store }) {
      const body = streamed(4, [bytesOf("abc")]);
      assertFailed(await store.put("k", body, { mode: "overwrite", signal: open }), "BODY_MISMATCH");
      await assertAbsent(store, "k");
    },
  },
  {
    id: "OS-011",
    clause: "a body that gives more than it declared is BODY_MISMATCH, and nothing is written",
    lie: {
      says: "what a body has too much is cut off",
      tell: onPut(async ({ key, body, o, real }) => {
        if (body instanceof Uint8Array) return real.put(key, body, o);
        const bytes = new Uint8Array(body.size);
        let at = 0;
        try {
          for await (const piece of body.open()) {
            const fits = piece.subarray(0, body.size - at);
            bytes.set(fits, at);
            at += fits.length;
          }
        } catch {
          return real.put(key, body, o);
        }
        return at === body.size ? real.put(key, bytes, o) : real.put(key, body, o);
      }),
    },
    async run({ store }) {
      const body = streamed(2, [bytesOf("abc")]);
      assertFailed(await store.put("k", body, { mode: "overwrite", signal: open }), "BODY_MISMATCH");
      await assertAbsent(store, "k");
    },
  },
  {
    id: "OS-012",
    clause: "an overwrite that fails leaves what was there",
    lie: {
      says: "an overwrite deletes the old object first",
      tell: onPut(async ({ key, body, o, real }) => {
        if (o.mode === "overwrite" && isStream(body)) await real.delete(key, o);
        return real.put(key, body, o);
      }),
    },
    async run({ store }) {
      await seed(store, "k", "before");
      const body = streamed(4, [bytesOf("abc")]);
      assertFailed(await store.put("k", body, { mode: "overwrite", signal: open }), "BODY_MISMATCH");
      assert.equal(await readText(store, "k"), "before");
    },
  },
  {
    id: "OS-013",
    clause: "a body whose source fails is `failed` with the source's own error",
    lie: {
      says: "the error of a body's source is lost",
      tell: onPut(async ({ key, body, o, real }) => {
        const result = await real.put(key, body, o);
        const foreign = result.outcome === "failed" && !("code" in result.error);
        return foreign ? failed(new Error("the put failed")) : result;
      }),
    },
    async run({ store }) {
      const broken = new Error("the disk of the spool is gone");
      const body = streamed(4, [bytesOf("ab")], () => Promise.reject(broken));
      const result = await store.put("k", body, { mode: "overwrite", signal: open });
      assert.equal(result.outcome, "failed");
      assert.equal(result.error, broken);
    },
  },
  {
    id: "OS-014",
    clause: "a body whose source fails writes nothing",
    lie: {
      says: "what came of a body before its source failed is stored",
      tell: onPut(async ({ key, body, o, real }) => {
        const result = await real.put(key, body, o);
        const foreign = result.outcome === "failed" && !("code" in result.error);
        if (foreign) await real.put(key, bytesOf("ab"), { ...o, mode: "overwrite" });
        return result;
      }),
    },
    async run({ store }) {
      const body = streamed(4, [bytesOf("ab")], () => Promise.reject(new Error("the disk of the spool is gone")));
      assert.equal((await store.put("k", body, { mode: "overwrite", signal: open })).outcome, "failed");
      await assertAbsent(store, "k");
    },
  },
  {
    id: "OS-015",
    clause: "a store keeps its own copy: changing the bytes after the put changes nothing stored",
    lie: {
      says: "the caller's array is what is stored",
      tell: (real) => {
        const given = new Map<string, Uint8Array>();
        return {
          async put(key, body, o) {
            const result = await real.put(key, body, o);
            if (result.outcome === "created" && body instanceof Uint8Array) given.set(key, body);
            if (result.outcome === "created" && isStream(body)) given.delete(key);
            return result;
          },
          async get(key, o) {
            const answer = await real.get(key, o);
            const bytes = given.get(key);
            const whole = o.range === undefined && bytes?.length === answer.bytes.length;
            return whole ? { ...answer, bytes: bytes.slice() } : answer;
          },
          delete(key, o) {
            given.delete(key);
            return real.delete(key, o);
          },
        };
      },
    },
    async run({ store }) {
      const given = bytesOf("abc");
      await seed(store, "k", given);
      given.fill(0);
      assert.equal(await readText(store, "k"), "abc");
    },
  },
  {
    id: "OS-016",
    clause: "the bytes that were read belong to the caller: changing them changes nothing stored",
    lie: {
      says: "every get of an object gives the same array",
      tell: (real) => {
        const given = new Map<string, Uint8Array>();
        return {
          async get(key, o) {
            const { bytes, info } = await real.get(key, o);
            if (o.range !== undefined) return { bytes, info };
            const name = `${key} ${info.etag}`;
            given.set(name, given.get(name) ?? bytes);
            return { bytes: given.get(name) ?? bytes, info };
          },
        };
      },
    },
    async run({ store }) {
      await seed(store, "k", "abc");
      (await store.get("k", { signal: open })).bytes.fill(0);
      assert.equal(await readText(store, "k"), "abc");
    },
  },
  {
    id: "OS-017",
    clause: "of a view only its own bytes are stored",
    lie: {
      says: "of a view the whole buffer is stored",
      tell: onPut(({ key, body, o, real }) => {
        const part =
          body instanceof Uint8Array && body.byteLength < 10 && body.byteOffset > 0 && body.buffer.byteLength < 20;
        return real.put(key, part ? new Uint8Array(body.buffer) : body, o);
      }),
    },
    async run({ store }) {
      const whole = new Uint8Array(10).map((_, i) => 48 + i);
      await seed(store, "k", whole.subarray(3, 6));
      assert.equal(await readText(store, "k"), "345");
    },
  },
  {
    id: "OS-018",
    clause: "more than a megabyte comes back byte for byte",
    lie: {
      says: "bytes behind the first megabyte are its bytes again",
      tell: changingBytes((bytes) => bytes.map((b, i) => (i < 1 << 20 ? b : (bytes[i - (1 << 20)] ?? 0)))),
    },
    async run({ store }) {
      const content = patterned((1 << 20) + 17);
      await seed(store, "k", content);
      ok(Buffer.from(patterned((1 << 20) + 17)).equals((await store.get("k", { signal: open })).bytes));
    },
  },
  {
    id: "OS-019",
    clause: "many pieces of odd sizes come back byte for byte",
    lie: {
      says: "the last of many pieces is zeros",
      tell: onPut(async ({ key, body, o, real }) => {
        if (body instanceof Uint8Array || body.size < 200_000) return real.put(key, body, o);
        const bytes = await collectBody(body, o);
        return real.put(key, bytes.fill(0, bytes.length - 100), o);
      }),
    },
    async run({ store }) {
      const content = patterned(262_143);
      const pieces = [1, 65_537, 3, 100_000, 96_602].reduce<{ at: number; all: Uint8Array[] }>(
        ({ at, all }, size) => ({ at: at + size, all: [...all, content.subarray(at, at + size)] }),
        { at: 0, all: [] },
      ).all;
      await seed(store, "k", streamed(content.length, pieces));
      ok(Buffer.from(content).equals((await store.get("k", { signal: open })).bytes));
    },
  },
];
