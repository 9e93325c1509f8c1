// Goal: every key has one path that any file system takes, below the root, and the path gives the key back. Method: random keys made of
// what is awkward. It found a name cut just before "..", whose second piece led out of the folder.
import { relative, sep } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decodePart, folderPrefix, objectPath, parseName } from "../../src/names.js";

const awkward = fc.constantFrom(
  "/",
  "//",
  ".",
  "..",
  "@",
  "@obj",
  "@more",
  "%",
  "%2f",
  "^",
  "A",
  "a",
  "é",
  "e\u0301",
  "😀",
  " ",
  "\uffee",
);
const piece = fc.oneof(
  awkward,
  fc.string({ unit: "grapheme", maxLength: 8 }),
  fc.constantFrom("y".repeat(239), "é".repeat(80)),
);
const key = fc
  .array(piece, { minLength: 1, maxLength: 24 })
  .map((pieces) => pieces.join("").replace(/[\p{Cc}\p{Surrogate}\ufffe\uffff]/gu, ""))
  .filter((text) => text !== "" && Buffer.byteLength(text) <= 1024);

/** The key that a path says, read name by name as a listing does. */
function keyOf(root: string, path: string): string {
  let text = "";
  let encoded = "";
  for (const name of relative(root, path).split(sep)) {
    const parsed = parseName(name, encoded !== "");
    if (parsed === null) throw new Error(`not a name of the store: ${name}`);
    encoded += parsed.encoded;
    if (parsed.kind === "more") continue;
    text += `${String(decodePart(encoded))}${parsed.kind === "folder" ? "/" : ""}`;
    encoded = "";
  }
  return text;
}

describe("names", () => {
  it("a path gives its key back, stays below the root, and is plain ASCII of at most 255 bytes a name", () => {
    fc.assert(
      fc.property(key, (text) => {
        const path = objectPath("/root/of/store", text);
        expect(keyOf("/root/of/store", path)).toBe(text);
        const names = relative("/root/of/store", path).split(sep);
        for (const name of names) {
          expect(name).toMatch(/^[a-z0-9_=@%^+-][a-z0-9._=@%^-]*$/);
          expect(name.length).toBeLessThanOrEqual(255);
        }
        expect(path.length).toBeLessThan(3500);
      }),
      { numRuns: 500 },
    );
  });

  it("two keys have two paths, also where file systems ignore case", () => {
    fc.assert(
      fc.property(key, key, (a, b) => {
        fc.pre(a !== b);
        expect(objectPath("/r", a).toLowerCase()).not.toBe(objectPath("/r", b).toLowerCase());
      }),
      { numRuns: 500 },
    );
  });

  it("the folder of a prefix is on the way to every key that starts with it", () => {
    fc.assert(
      fc.property(key, fc.nat(), (text, n) => {
        const start = text.slice(0, n % text.length);
        expect(text.startsWith(folderPrefix(start))).toBe(true);
      }),
    );
  });

  it.each([
    ["v1/acts/w=7/0000000000000001-ab.hfpack", "/r/v1/acts/w=7/0000000000000001-ab.hfpack@obj"],
    ["a/../B", "/r/a/%2e./^b@obj"],
    [`${"y".repeat(240)}../z`, `/r/${"y".repeat(240)}@more/+../z@obj`],
    ["//a//", "/r/@/@/a/@/@obj"],
    ["é b+", "/r/%c3%a9%20b%2b@obj"],
    [`${"x/".repeat(17)}y`, `/r/${"x/".repeat(16)}x%2fy@obj`],
  ])("%s is %s", (text, path) => {
    expect(objectPath("/r", text)).toBe(path);
  });
});
