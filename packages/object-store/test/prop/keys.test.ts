// Goal: keys are ordered as their UTF-8 is, and the rules let through exactly what round-trips. Method: random text, also malformed.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { checkKey, checkPrefix, compareKeys } from "@holdfast/object-store";

const anyText = fc.oneof(
  fc.string({ unit: "binary", maxLength: 12 }),
  fc
    .array(fc.constantFrom("a", "\ud800", "\udfff", "\ue000", "\uffee", "😀", "é", "/", "\u0000"), { maxLength: 8 })
    .map((all) => all.join("")),
);

/** Whether a text survives UTF-8, which an unpaired surrogate does not. */
const wellFormed = (text: string): boolean => Buffer.from(text).toString() === text;

describe("compareKeys", () => {
  // Red when `byteRank` returns its argument: U+E000 and above then sort after the surrogates.
  it("agrees with the order of the UTF-8 bytes", () => {
    fc.assert(
      fc.property(anyText, anyText, (a, b) => {
        fc.pre(wellFormed(a) && wellFormed(b));
        expect(Math.sign(compareKeys(a, b))).toBe(Buffer.compare(Buffer.from(a), Buffer.from(b)));
      }),
      { numRuns: 2000 },
    );
  });
});

describe("checkKey", () => {
  it("lets through exactly what comes back from UTF-8 and XML, within the limit", () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const fine = text !== "" && wellFormed(text) && !/[\u0000-\u001f\u007f-\u009f\ufffe\uffff]/.test(text);
        if (fine) expect(() => checkKey(text)).not.toThrow();
        else expect(() => checkKey(text)).toThrow(expect.objectContaining({ code: "INVALID_KEY" }) as Error);
      }),
      { numRuns: 2000 },
    );
  });

  it("counts bytes, not characters, and takes a lower limit", () => {
    expect(() => checkKey("é".repeat(512))).not.toThrow();
    expect(() => checkKey(`${"é".repeat(512)}x`)).toThrow(/1025 bytes of UTF-8, over the limit of 1024/);
    expect(() => checkKey("x".repeat(11), 10)).toThrow(/11 bytes/);
  });

  it("says where the bad character is", () => {
    expect(() => checkKey("ab\u0003")).toThrow(/\[INVALID_KEY\] the key "ab\\u0003" holds U\+0003 at position 2/);
  });

  it("as a prefix, nothing is allowed too", () => {
    expect(() => checkPrefix("")).not.toThrow();
    expect(() => checkPrefix("a\n")).toThrow(/the prefix/);
  });
});
