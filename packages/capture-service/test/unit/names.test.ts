// Goal: a file's name says all that a start must know. Method: there and back, and a table of names that are not ours.
import { describe, expect, it } from "vitest";
import { formatName, numberIn, parseName, type SpoolName } from "../../src/spool/names.js";

const writerId = "0191f0a0-0000-7000-8000-000000000001";
const packId = "0191f0a0-0000-7000-8000-0000000000ff";
const pack = { writerId, sequence: 42n, packId };

describe("spool names", () => {
  const names: readonly SpoolName[] = [
    { kind: "begun", ...pack },
    { kind: "open", ...pack },
    { kind: "copy", ...pack },
    { kind: "failed", ...pack, goodBytes: 123_456 },
    { kind: "sealed", ...pack, records: 7, sha256: "ab".repeat(32) },
    { kind: "void", writerId, sequence: 9_999_999_999_999_999n },
  ];
  it.each(names)("$kind comes back as it was, quarantined or not", (name) => {
    const text = formatName(name);
    expect(parseName(text)).toEqual(name);
    expect(Buffer.byteLength(`${text}.quarantined`)).toBeLessThan(255);
    expect(numberIn(`${text}.quarantined`)).toEqual({ writerId, sequence: name.sequence });
    expect(parseName(`${text}.quarantined`)).toBeNull();
  });

  it.each([
    "",
    "holdfast-spool.json",
    `${writerId}.42-${packId}.open`,
    `${writerId}.${"0".repeat(16)}-${packId}.opened`,
    `x${formatName(names[1]!)}`,
  ])("%s is not ours", (text) => {
    expect(parseName(text)).toBeNull();
  });
});
