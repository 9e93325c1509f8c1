import assert from "node:assert/strict";
import { ObjectStoreError, type ObjectStore } from "@holdfast/object-store";
import { failed, keysAs, onHead, onList, onPut } from "../lies.js";
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
export const oddKeys: readonly Case[] = [
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
