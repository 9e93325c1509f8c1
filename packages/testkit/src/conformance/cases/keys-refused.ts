import assert from "node:assert/strict";
import { compareKeys } from "@holdfast/object-store";
import { onDelete, onGet, onHead, onPut } from "../lies.js";
import { assertAbsent, assertFailed, bytesOf, keysOf, open, put, seed, streamed } from "../support.js";
import type { Case, CaseId, CasePlace, Lie } from "../types.js";

const bytes = (key: string): number => Buffer.byteLength(key);

const beside = (id: CaseId, clause: string, lie: Lie, run: Case["run"]): Case => ({ id, clause, lie, run });

/** A store that mends a refused key in one method instead of refusing it. */
const mending = (
  says: string,
  method: "put" | "get" | "head" | "delete",
  fits: (key: string) => boolean,
  mended: (key: string) => string,
): Lie => {
  const as = (key: string): string => (fits(key) ? mended(key) : key);
  const tell = {
    put: onPut(({ key, body, o, real }) => real.put(as(key), body, o)),
    get: onGet(({ key, o, real }) => real.get(as(key), o)),
    head: onHead(({ key, o, real }) => real.head(as(key), o)),
    delete: onDelete(({ key, o, real }) => real.delete(as(key), o)),
  };
  return { says, tell: tell[method] };
};
const refusesPut =
  (...keys: string[]) =>
  async ({ store }: CasePlace): Promise<void> => {
    for (const key of keys) assertFailed(await put(store, key, "v", "overwrite"), "INVALID_KEY");
    assert.deepEqual(await keysOf(store), []);
  };
const ends = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => null,
    (error: unknown) => (error as { code?: unknown }).code,
  );
const refusals: readonly [CaseId, "get" | "head" | "delete", string][] = [
  ["OS-265", "get", "get of a key that is refused is INVALID_KEY"],
  ["OS-266", "head", "head of a key that is refused is INVALID_KEY"],
  ["OS-267", "delete", "delete of a key that is refused is INVALID_KEY"],
];
const bad = ["", "a\u0000", "\ud800"];

/** Keys that could not come back from every store. */
export const refusedKeys: readonly Case[] = [
  beside(
    "OS-256",
    "an empty key is INVALID_KEY",
    mending(
      "an empty key is a slash",
      "put",
      (key) => key === "",
      () => "/",
    ),
    refusesPut(""),
  ),
  beside(
    "OS-257",
    "a key of one byte too many, in ASCII, is INVALID_KEY",
    mending(
      "a key is cut when it is too long",
      "put",
      (key) => /^x{1025,}$/.test(key),
      (key) => key.slice(0, 1024),
    ),
    async (place) => refusesPut("x".repeat(place.store.capabilities.maxKeyBytes + 1))(place),
  ),
  beside(
    "OS-258",
    "a key of one byte too many, in letters of two bytes, is INVALID_KEY",
    mending(
      "letters are counted, not bytes",
      "put",
      (key) => key.includes("é") && bytes(key) > 1024,
      (key) => key.slice(0, 512),
    ),
    async (place) => {
      const max = place.store.capabilities.maxKeyBytes;
      await refusesPut("é".repeat(Math.floor(max / 2)) + "x".repeat((max % 2) + 1))(place);
    },
  ),
  beside(
    "OS-259",
    "a key with a zero byte is INVALID_KEY",
    mending(
      "a key ends at a zero byte",
      "put",
      (key) => key.includes("\0"),
      (key) => key.split("\0")[0] || "x",
    ),
    refusesPut("a\u0000b"),
  ),
  beside(
    "OS-260",
    "a key with a control character is INVALID_KEY",
    mending(
      "control characters are dropped",
      "put",
      (key) => /[\u0001-\u001f]/.test(key),
      (key) => key.replace(/[\u0001-\u001f]/g, ""),
    ),
    refusesPut("a\u0003b", "a\u001fb", "a\nb", "a\tb"),
  ),
  beside(
    "OS-261",
    "a key with a delete character, or one of the second control block, is INVALID_KEY",
    mending(
      "U+0080 to U+009F are taken",
      "put",
      (key) => /[\u007f-\u009f]/.test(key),
      (key) => key.replace(/[\u007f-\u009f]/g, "?"),
    ),
    refusesPut("\u007f", "a\u0085b", "\u009f"),
  ),
  beside(
    "OS-262",
    "a key with half a surrogate pair is INVALID_KEY",
    mending(
      "half a pair becomes U+FFFD",
      "put",
      (key) => Buffer.from(key).toString() !== key,
      (key) => Buffer.from(key).toString(),
    ),
    refusesPut("a\ud800", "\udc00b"),
  ),
  beside(
    "OS-263",
    "a key with U+FFFE or U+FFFF is INVALID_KEY",
    mending(
      "U+FFFE and U+FFFF are taken",
      "put",
      (key) => /[\ufffe\uffff]/.test(key),
      (key) => key.replace(/[\ufffe\uffff]/g, "?"),
    ),
    refusesPut("\ufffe", "a\uffff"),
  ),
  beside(
    "OS-264",
    "a refused key is refused before the body is opened",
    {
      says: "the body is opened before the key is looked at",
      tell: onPut(async ({ key, body, o, real }) => {
        if (key.length > 1024 && !(body instanceof Uint8Array))
          for await (const piece of body.open()) if (piece.length > 9) break;
        return real.put(key, body, o);
      }),
    },
    async ({ store }) => {
      const body = streamed(1, [bytesOf("v")]);
      assertFailed(await store.put("x".repeat(1025), body, { mode: "overwrite", signal: open }), "INVALID_KEY");
      assert.equal(body.opened(), 0);
    },
  ),
  ...refusals.map(([id, method, clause]): Case => ({
    id,
    clause,
    lie: mending(
      `${method} mends what is no key`,
      method,
      (key) => bad.includes(key),
      () => "mended",
    ),
    async run({ store }) {
      for (const key of bad)
        assert.equal(await ends(store[method](key, { signal: open })), "INVALID_KEY", JSON.stringify(key));
    },
  })),
  beside(
    "OS-268",
    "a key that is no string is INVALID_KEY",
    mending(
      "a key is made a string",
      "put",
      (key) => typeof key !== "string",
      (key) => [key].join(""),
    ),
    refusesPut(7 as unknown as string),
  ),
  beside(
    "OS-269",
    "listing after each of many odd keys gives the next",
    {
      says: "a startAfter with odd letters is encoded",
      tell: (real) => ({
        list: (o) =>
          real.list(
            o.startAfter === undefined || o.startAfter.length > 9 ? o : { ...o, startAfter: encodeURI(o.startAfter) },
          ),
      }),
    },
    async ({ store }) => {
      const keys = ["a b", "a%20b", "a+b", "é", "e\u0301", "<", "a/", "a//", "/", "😀", "\uff5e", "%"];
      for (const key of keys) await seed(store, key, "v");
      const sorted = [...keys].sort(compareKeys);
      for (const [i, startAfter] of sorted.entries()) {
        assert.deepEqual(await keysOf(store, { startAfter, limit: 2 }), sorted.slice(i + 1, i + 3), startAfter);
      }
      await assertAbsent(store, "a%2520b");
    },
  ),
];
