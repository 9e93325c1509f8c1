import assert from "node:assert/strict";
import { bodySize, collectBody, type Body, type ObjectInfo } from "@holdfast/object-store";
import { changingBytes, failed, keysAs, onDelete, onGet, onHead, onList, onPut } from "../lies.js";
import {
  ok,
  assertAbsent,
  assertFailed,
  bytesOf,
  headOf,
  infosOf,
  keysOf,
  open,
  patterned,
  put,
  readText,
  remove,
  seed,
  streamed,
  textOf,
} from "../support.js";
import type { Case } from "../types.js";

const concat = (a: Uint8Array, b: Uint8Array): Uint8Array => Uint8Array.of(...a, ...b);
const isStream = (body: Body): boolean => !(body instanceof Uint8Array);

/** The bytes of a put. */
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
  {
    id: "OS-020",
    clause: "overwrite replaces the bytes",
    lie: {
      says: "an overwrite with as many bytes changes nothing",
      tell: onPut(async ({ key, body, o, real }) => {
        const there = await real.head(key, o).catch(() => null);
        const same = o.mode === "overwrite" && there?.size === bodySize(body) && there.size > 0;
        return same ? { outcome: "created", etag: there.etag } : real.put(key, body, o);
      }),
    },
    async run({ store }) {
      await seed(store, "k", "one");
      await seed(store, "k", "two", { mode: "overwrite" });
      assert.equal(await readText(store, "k"), "two");
    },
  },
  {
    id: "OS-021",
    clause: "overwrite with less leaves nothing of the longer object",
    lie: {
      says: "the end of a longer object stays behind a shorter one",
      tell: onPut(async ({ key, body, o, real }) => {
        const there = o.mode === "overwrite" ? await real.get(key, { signal: o.signal }).catch(() => null) : null;
        if (there === null || !(body instanceof Uint8Array) || body.length >= there.bytes.length) {
          return real.put(key, body, o);
        }
        return real.put(key, concat(body, there.bytes.subarray(body.length)), o);
      }),
    },
    async run({ store }) {
      await seed(store, "k", "a long one");
      await seed(store, "k", "short", { mode: "overwrite" });
      assert.equal(await readText(store, "k"), "short");
    },
  },
  {
    id: "OS-022",
    clause: "an overwrite with other bytes has another etag",
    lie: {
      says: "the etag is made of key and size",
      tell: (real) => {
        const made = (info: ObjectInfo): ObjectInfo => ({ ...info, etag: `of-${info.size}` });
        const real2 = async (key: string, etag: string): Promise<string> => {
          const info = await real.head(key, { signal: open });
          return info !== null && etag === made(info).etag ? info.etag : "none";
        };
        return {
          async put(key, body, o) {
            const mode = typeof o.mode === "object" ? { ifMatch: await real2(key, o.mode.ifMatch) } : o.mode;
            const result = await real.put(key, body, { ...o, mode });
            if (result.outcome === "created") return { ...result, etag: `of-${bodySize(body)}` };
            return result.outcome === "exists" ? { ...result, info: made(result.info) } : result;
          },
          async get(key, o) {
            const ifMatch = o.ifMatch === undefined ? {} : { ifMatch: await real2(key, o.ifMatch) };
            const { bytes, info } = await real.get(key, { ...o, ...ifMatch });
            return { bytes, info: made(info) };
          },
          async head(key, o) {
            const info = await real.head(key, o);
            return info && made(info);
          },
          async *list(o) {
            for await (const info of real.list(o)) yield made(info);
          },
        };
      },
    },
    async run({ store }) {
      const first = await seed(store, "k", "one");
      assert.notEqual(await seed(store, "k", "two", { mode: "overwrite" }), first);
    },
  },
  {
    id: "OS-023",
    clause: "overwrite of a key that holds nothing creates it",
    lie: {
      says: "there must be something to overwrite",
      tell: onPut(async ({ key, body, o, real }) => {
        const nothing = o.mode === "overwrite" && (await real.head(key, o).catch(() => null)) === null;
        return nothing && !isStream(body)
          ? failed(Object.assign(new Error("nothing"), { code: "NOT_FOUND" }))
          : real.put(key, body, o);
      }),
    },
    async run({ store }) {
      await seed(store, "k", "v", { mode: "overwrite" });
      assert.equal(await readText(store, "k"), "v");
    },
  },
  {
    id: "OS-024",
    clause: "the etag of an overwrite is the etag that head then tells",
    lie: {
      says: "an overwrite answers with the etag of what it replaced",
      tell: onPut(async ({ key, body, o, real }) => {
        const there = o.mode === "overwrite" ? await real.head(key, o).catch(() => null) : null;
        const result = await real.put(key, body, o);
        return result.outcome === "created" && there !== null ? { ...result, etag: there.etag } : result;
      }),
    },
    async run({ store }) {
      await seed(store, "k", "one");
      const etag = await seed(store, "k", "and two", { mode: "overwrite" });
      assert.equal((await headOf(store, "k"))?.etag, etag);
    },
  },
  {
    id: "OS-025",
    clause: "two keys with the same bytes are two objects",
    lie: {
      says: "the same bytes are kept once, and go with the first delete",
      tell: (real) => {
        const places = new Map<string, Set<string>>();
        return {
          async put(key, body, o) {
            const result = await real.put(key, body, o);
            if (result.outcome === "created" && body instanceof Uint8Array && body.length < 100) {
              const content = textOf(body);
              places.set(content, (places.get(content) ?? new Set()).add(key));
            }
            return result;
          },
          async delete(key, o) {
            const there = await real.get(key, { signal: o.signal }).catch(() => null);
            const content = there === null ? "" : textOf(there.bytes);
            if (content === "the same") for (const one of places.get(content) ?? []) await real.delete(one, o);
            await real.delete(key, o);
          },
        };
      },
    },
    async run({ store }) {
      await seed(store, "a", "the same");
      await seed(store, "b", "the same");
      await remove(store, "a");
      assert.equal(await readText(store, "b"), "the same");
    },
  },
  {
    id: "OS-026",
    clause: "a deleted object is gone for head and get",
    lie: { says: "a delete does nothing", tell: onDelete(() => Promise.resolve()) },
    async run({ store }) {
      await seed(store, "k", "v");
      await remove(store, "k");
      await assertAbsent(store, "k");
    },
  },
  {
    id: "OS-027",
    clause: "a deleted object is gone from listings",
    lie: {
      says: "a listing shows what was deleted last",
      tell: (real) => {
        let gone: ObjectInfo | null = null;
        return {
          async delete(key, o) {
            gone = await real.head(key, o);
            await real.delete(key, o);
          },
          ...onList((infos, o) => (gone?.key.startsWith(o.prefix) === true ? [...infos, gone] : infos))(real),
        };
      },
    },
    async run({ store }) {
      await seed(store, "k", "v");
      await seed(store, "l", "v");
      await remove(store, "k");
      assert.deepEqual(await keysOf(store), ["l"]);
    },
  },
  {
    id: "OS-028",
    clause: "deleting what is not there is success",
    lie: {
      says: "nothing to delete is NOT_FOUND",
      tell: onDelete(async ({ key, o, real }) => {
        if ((await real.head(key, o)) === null) throw Object.assign(new Error("nothing"), { code: "NOT_FOUND" });
        await real.delete(key, o);
      }),
    },
    async run({ store }) {
      await remove(store, "never there");
      await seed(store, "k", "v");
      await remove(store, "k");
      await remove(store, "k");
    },
  },
  {
    id: "OS-029",
    clause: "a deleted key can be created anew",
    lie: {
      says: "the name of a deleted object stays taken",
      tell: (real) => {
        const tombs = new Map<string, ObjectInfo>();
        return {
          async delete(key, o) {
            const info = await real.head(key, o);
            if (info !== null) tombs.set(key, info);
            await real.delete(key, o);
          },
          async put(key, body, o) {
            const tomb = o.mode === "create" ? tombs.get(key) : undefined;
            return tomb === undefined ? real.put(key, body, o) : { outcome: "exists", info: tomb };
          },
        };
      },
    },
    async run({ store }) {
      await seed(store, "k", "one");
      await remove(store, "k");
      await seed(store, "k", "two");
      assert.equal(await readText(store, "k"), "two");
    },
  },
  {
    id: "OS-030",
    clause: "an object of other bytes that takes a deleted one's place has another etag",
    lie: {
      says: "etags count from the start again after a delete",
      tell: (real) => {
        const versions = new Map<string, number>();
        const made = (info: ObjectInfo): ObjectInfo => ({ ...info, etag: `v${versions.get(info.key) ?? 0}` });
        const theirs = async (key: string, etag: string): Promise<string> => {
          const info = await real.head(key, { signal: open });
          return info !== null && made(info).etag === etag ? info.etag : "none";
        };
        return {
          async put(key, body, o) {
            const mode = typeof o.mode === "object" ? { ifMatch: await theirs(key, o.mode.ifMatch) } : o.mode;
            const result = await real.put(key, body, { ...o, mode });
            if (result.outcome === "exists") return { ...result, info: made(result.info) };
            if (result.outcome !== "created") return result;
            versions.set(key, (versions.get(key) ?? 0) + 1);
            return { ...result, etag: `v${versions.get(key) ?? 0}` };
          },
          async get(key, o) {
            const ifMatch = o.ifMatch === undefined ? {} : { ifMatch: await theirs(key, o.ifMatch) };
            const { bytes, info } = await real.get(key, { ...o, ...ifMatch });
            return { bytes, info: made(info) };
          },
          async head(key, o) {
            const info = await real.head(key, o);
            return info && made(info);
          },
          async *list(o) {
            for await (const info of real.list(o)) yield made(info);
          },
          delete(key, o) {
            versions.delete(key);
            return real.delete(key, o);
          },
        };
      },
    },
    async run({ store }) {
      const first = await seed(store, "k", "one");
      await remove(store, "k");
      assert.notEqual(await seed(store, "k", "two"), first);
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
