import assert from "node:assert/strict";
import { compareKeys, ObjectStoreError, type ObjectStore } from "@holdfast/object-store";
import { failed, keysAs, onDelete, onGet, onHead, onList, onPut } from "../lies.js";
import {
  ok,
  assertAbsent,
  assertFailed,
  bytesOf,
  headOf,
  inByteOrder,
  keysOf,
  open,
  put,
  readText,
  remove,
  seed,
  streamed,
} from "../support.js";
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
const odd = (id: CaseId, what: string, keys: readonly string[], lie: Lie): Case => ({
  id,
  clause: `${what}: put, list, head, get and delete agree, byte for byte`,
  lie,
  run: roundTrip(keys),
});
const mistaking = (says: string, as: (key: string) => string): Lie => ({ says, tell: keysAs(as) });
const refusing = (says: string, refused: (key: string) => boolean): Lie => ({
  says,
  tell: onPut(({ key, body, o, real }) =>
    refused(key) ? Promise.resolve(failed(invalidKey)) : real.put(key, body, o),
  ),
});
const bytes = (key: string): number => Buffer.byteLength(key);
/** As long as the store's keys may be, ending in `end`. */
const longest = (store: ObjectStore, of: string, end = ""): string => {
  const count = Math.floor((store.capabilities.maxKeyBytes - bytes(end)) / bytes(of));
  const key = of.repeat(count) + end;
  return "x".repeat(store.capabilities.maxKeyBytes - bytes(key)) + key;
};
const long = (id: CaseId, what: string, key: (store: ObjectStore) => string, lie: Lie): Case => ({
  id,
  clause: `${what} is a key`,
  lie,
  run: (place) => roundTrip([key(place.store), "k"])(place),
});

/** Keys that do not survive everywhere. */
const oddKeys: readonly Case[] = [
  odd(
    "OS-210",
    "spaces inside",
    ["a b", "a  b"],
    mistaking("spaces become plus signs", (key) => key.replaceAll(" ", "+").replace(/^\+|\+$/g, " ")),
  ),
  odd(
    "OS-211",
    "spaces at either end",
    [" lead", "trail ", " "],
    mistaking("keys are trimmed", (key) => key.replace(/^ +(?=.)| +$/g, "") || " "),
  ),
  odd(
    "OS-212",
    "plus signs",
    ["a+b", "+", "a++b"],
    mistaking("plus signs become spaces", (key) => key.replaceAll("+", " ")),
  ),
  odd(
    "OS-213",
    "percent signs",
    ["100%", "%"],
    mistaking("a percent sign alone is doubled", (key) => key.replace(/%(?![0-9a-f]{2})/g, "%%")),
  ),
  odd("OS-214", "percent signs before hex digits", ["a%2fb", "a%25", "a%20b"], {
    says: "keys are decoded as a URL",
    tell: keysAs((key) => key.replace(/%(2f|25|20)/g, (_, hex: string) => String.fromCharCode(parseInt(hex, 16)))),
  }),
  odd(
    "OS-215",
    "hash signs",
    ["x#y", "x#", "#"],
    mistaking("a key ends at a hash sign", (key) => key.split("#")[0] || "x"),
  ),
  odd(
    "OS-216",
    "question marks",
    ["x?y=z", "x?"],
    mistaking("a key ends at a question mark", (key) => key.split("?")[0] || "x"),
  ),
  odd(
    "OS-217",
    "<, & and >",
    ["<&>", "a&b", "&amp;", "&lt;"],
    mistaking("keys are escaped as XML", (key) => key.replace(/[<&>]/g, (c) => `&#${c.charCodeAt(0)};`)),
  ),
  odd(
    "OS-218",
    "quotes",
    [`a'b"c`, `"q"`, "`"],
    mistaking("quotes are dropped", (key) => key.replace(/["']/g, "")),
  ),
  odd(
    "OS-219",
    "backslashes",
    ["a\\b", "\\"],
    mistaking("backslashes become slashes", (key) => key.replaceAll("\\", "/")),
  ),
  odd(
    "OS-220",
    "what Windows does not take",
    ["a:b*c|d", "a:b"],
    mistaking("colons, stars and pipes become dashes", (key) => key.replace(/[:*|]/g, "-")),
  ),
  odd(
    "OS-221",
    "other punctuation",
    ["!~$'(),;=@[]{}^", "(1)"],
    mistaking("brackets are encoded", (key) => key.replace(/[()]/g, (c) => `%${c.charCodeAt(0).toString(16)}`)),
  ),
  odd(
    "OS-222",
    "a leading slash",
    ["/lead", "lead"],
    mistaking("a leading slash is dropped", (key) => key.replace(/^\/(?=[a-z])/, "")),
  ),
  odd(
    "OS-223",
    "a trailing slash",
    ["dir/", "dir"],
    mistaking("a trailing slash is dropped", (key) => key.replace(/(?<=[a-z])\/$/, "")),
  ),
  odd(
    "OS-224",
    "slashes beside each other",
    ["a//b", "a/b", "a///b"],
    mistaking("slashes become one", (key) => key.replace(/(?<=[a-z])\/\/+(?=[a-z])/g, "/")),
  ),
  odd(
    "OS-225",
    "slashes only",
    ["/", "//", "///"],
    mistaking("slashes only are one slash", (key) => (/^\/+$/.test(key) && key.length < 20 ? "/" : key)),
  ),
  odd(
    "OS-226",
    "`.` as a name",
    ["./a", "a/./b", "a/.", "a/b"],
    mistaking("names of one dot are dropped", (key) => key.replace(/(^|\/)\.(\/|$)/g, "$1") || key),
  ),
  odd(
    "OS-227",
    "`..` as a name",
    ["a/../b", "../../etc/passwd", "a/.."],
    mistaking(
      "names of two dots lead up",
      (key) => key.replace(/[^/]+\/\.\.(?=\/|$)/g, "").replace(/^\/(?=.)/, "") || key,
    ),
  ),
  odd(
    "OS-228",
    "dots only",
    [".", "..", "..."],
    refusing("keys of dots are refused", (key) => /^\.+$/.test(key)),
  ),
  odd("OS-229", "a leading dot", [".hidden", "a/.hidden"], {
    says: "hidden names are not listed",
    tell: onList((infos) => infos.filter(({ key }) => !/(^|\/)\.[a-z]/.test(key))),
  }),
  odd(
    "OS-230",
    "a trailing dot",
    ["a.", "a", "a.."],
    mistaking("a trailing dot is dropped", (key) => key.replace(/(?<=^[a-z]\.*)\.$/, "")),
  ),
  odd(
    "OS-231",
    "composed and decomposed letters",
    ["é", "e\u0301"],
    mistaking("keys are composed", (key) => (key.includes("e\u0301") ? key.normalize("NFC") : key)),
  ),
  odd(
    "OS-232",
    "Hangul, composed and decomposed",
    ["한국어", "한국어".normalize("NFD")],
    mistaking("Hangul is decomposed", (key) => (/[\uac00-\ud7a3]/.test(key) ? key.normalize("NFD") : key)),
  ),
  odd(
    "OS-233",
    "letters that look alike",
    ["\uff21", "A", "\u2126", "\u03a9"],
    mistaking("letters of one look are one", (key) => (/[\uff21\u2126]/.test(key) ? key.normalize("NFKC") : key)),
  ),
  odd(
    "OS-234",
    "capitals",
    ["a", "A", "Ab", "aB"],
    mistaking("case is ignored", (key) => (key.length < 3 ? key.toLowerCase() : key)),
  ),
  odd(
    "OS-235",
    "capitals outside ASCII",
    ["Ä", "ä", "İ"],
    mistaking("case is ignored outside ASCII", (key) => key.replace(/[Äİ]/g, (c) => c.toLowerCase())),
  ),
  odd(
    "OS-236",
    "letters beyond the basic plane",
    ["😀", "😁", "\u{10ffff}"],
    mistaking("emoji are one letter", (key) => key.replace(/[😀😁]/gu, "😀")),
  ),
  odd(
    "OS-237",
    "a byte order mark at the start",
    ["\ufeffbom", "bom"],
    mistaking("a byte order mark is dropped", (key) => key.replace(/^\ufeff/, "")),
  ),
  odd(
    "OS-238",
    "spaces that are no space",
    ["a\u00a0b", "a\u200bb", "a\u2028b"],
    mistaking("odd spaces become spaces", (key) => key.replace(/[\u00a0\u200b\u2028]/g, " ")),
  ),
  odd(
    "OS-239",
    "right-to-left text and its marks",
    ["שלום", "a\u202eb"],
    mistaking("marks of direction are dropped", (key) => key.replace(/\u202e/g, "")),
  ),
  odd(
    "OS-240",
    "names that Windows reserves",
    ["CON", "nul.txt", "x/aux"],
    refusing("reserved names are refused", (key) => /(^|\/)(con|nul|aux)(\.|$)/i.test(key)),
  ),
  odd("OS-241", "names that JavaScript reserves", ["__proto__", "constructor", "toString"], {
    says: "what an object has from its prototype is no key",
    tell: onHead(({ key, o, real }) => (key in {} ? Promise.resolve(null) : real.head(key, o))),
  }),
  odd(
    "OS-242",
    "numbers",
    ["1", "01", "1.0", "1e0", "-1"],
    mistaking("numbers are compared as numbers", (key) =>
      /^[0-9.e]+$/.test(key) && !key.includes("..") && Number(key) === 1 ? "1" : key,
    ),
  ),
  odd("OS-243", "what the stores use themselves", ["a@obj", "@obj", "a@more", ".staging/x", "a.meta", "a.tmp"], {
    says: "names of half-written files are not listed",
    tell: onList((infos) => infos.filter(({ key }) => !key.endsWith(".tmp"))),
  }),
  odd(
    "OS-244",
    "names of 240 to 256 bytes",
    ["y".repeat(240), "y".repeat(255), "y".repeat(256)],
    mistaking("a name ends after 255 bytes", (key) => (/^y+$/.test(key) ? key.slice(0, 255) : key)),
  ),
  odd(
    "OS-245",
    "long names around a slash",
    [`${"y".repeat(300)}/z`, `a/${"y".repeat(300)}`],
    refusing("a folder's name of 256 bytes is refused", (key) => /^[^/]{256,}\//.test(key) && key.length < 400),
  ),
  long(
    "OS-246",
    "the longest key in ASCII",
    (store) => longest(store, "y"),
    refusing("keys of over 1,000 letters are refused", (key) => /^[xy]{1001,}$/.test(key)),
  ),
  long(
    "OS-247",
    "the longest key in letters of two bytes",
    (store) => longest(store, "é"),
    refusing("three bytes are counted for every letter", (key) => /^x*é{342,}$/.test(key)),
  ),
  long(
    "OS-248",
    "the longest key in letters of four bytes",
    (store) => longest(store, "😀"),
    refusing("twelve bytes are counted for a letter beyond the basic plane", (key) => /^x*(😀){86,}$/u.test(key)),
  ),
  long(
    "OS-249",
    "the longest key in slashes",
    (store) => longest(store, "/"),
    refusing("a key has 100 slashes at most", (key) => /\/{101}/.test(key)),
  ),
  long(
    "OS-250",
    "the longest key in folders",
    (store) => longest(store, "d/", "d"),
    refusing("a key has 200 folders at most", (key) => /(d\/){201}/.test(key)),
  ),
];

const beside = (id: CaseId, clause: string, lie: Lie, run: Case["run"]): Case => ({ id, clause, lie, run });
const isBelow = (key: string, above: string): boolean => above.startsWith("p") && key.startsWith(`${above}/`);

/** Keys that are also folders, where there are folders. */
const besideKeys: readonly Case[] = [
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
const refusedKeys: readonly Case[] = [
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

/** Everything about keys. */
export const keyCases: readonly Case[] = [...oddKeys, ...besideKeys, ...refusedKeys];
