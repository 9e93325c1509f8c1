// Goal: what a person reads is short, aligned and cannot be hijacked by stored strings. Method: examples, and the edges of each unit.
import { describe, expect, it } from "vitest";
import { bytes, cell, count, counted, duration, facts, json, perSecond, table, timeOfNs } from "../../src/format.js";

describe("format", () => {
  it.each([
    [0, "0 B"],
    [999, "999 B"],
    [1000, "1.00 kB"],
    [1024, "1.02 kB"],
    [9_994, "9.99 kB"],
    [9_996, "10.0 kB"],
    [99_960, "100 kB"],
    [999_499, "999 kB"],
    [999_500, "1.00 MB"],
    [5_000_000_000n, "5.00 GB"],
    [123_456_789_012_345_678n, "123457 TB"],
  ])("bytes(%s)", (value, text) => {
    expect(bytes(value)).toBe(text);
  });

  it.each([
    [0, "0"],
    [999, "999"],
    [1000, "1,000"],
    [18446744073709551615n, "18,446,744,073,709,551,615"],
  ])("count(%s)", (value, text) => {
    expect(count(value)).toBe(text);
  });

  it("counted(…)", () => {
    expect([0, 1, 2000].map((n) => counted(n, "pack"))).toEqual(["0 packs", "1 pack", "2,000 packs"]);
  });

  it.each([
    [0, "0 ms"],
    [-5, "0 ms"],
    [999, "999 ms"],
    [1500, "1.5 s"],
    [119_999, "120.0 s"],
    [120_000, "2 min"],
    [7_200_000, "2.0 h"],
    [172_800_000, "2.0 d"],
  ])("duration(%s)", (ms, text) => {
    expect(duration(ms)).toBe(text);
  });

  it("rates do not divide by zero", () => {
    expect(perSecond(500, 250)).toBe(2000);
    expect(perSecond(500, 0)).toBe(0);
  });

  it("times are UTC to the millisecond, and beyond a Date the number itself", () => {
    expect(timeOfNs(1_796_028_092_123_456_789n)).toBe("2026-11-30 08:41:32.123");
    expect(timeOfNs(18446744073709551615n)).toBe("2554-07-21 23:34:33.709");
    expect(timeOfNs(10n ** 24n)).toBe("1000000000000000000000000 ns");
  });

  it("JSON has 64-bit numbers as strings", () => {
    expect(json({ step: 2n ** 63n, list: [1n], payload: new Uint8Array(3) })).toBe(
      '{"step":"9223372036854775808","list":["1"],"payload":{"bytes":3}}',
    );
  });

  it("a stored string cannot move the cursor or break the table", () => {
    expect(cell("a\u001b[2Jb\nc\u009b1m")).toBe("a?[2Jb?c?1m");
    expect(cell("x".repeat(50))).toBe(`${"x".repeat(37)}...`);
    expect(cell([1, 2])).toBe("[1,2]");
    expect(cell(null)).toBe("null");
    expect(cell(undefined)).toBe("");
    expect(cell(7n)).toBe("7");
  });

  it("facts align their values", () => {
    expect(
      facts([
        ["a", "1"],
        ["long", "2"],
      ]),
    ).toBe("  a     1\n  long  2\n");
  });

  it("tables align their columns and have no trailing blanks", () => {
    const text = table([{ head: "name" }, { head: "n", right: true }], [["a", "1"], ["bcd", "200"]]); // prettier-ignore
    expect(text).toBe("  name    n\n  a       1\n  bcd   200\n");
  });
});
