// Goal: a field value survives the way into a JSON line and back, whatever its type. Method: cases, and a property.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { jsonDecoder, jsonEncoder, plainType } from "../../src/catalog/values.js";

const big = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });

describe("values in JSON lines", () => {
  it.each([
    ["UInt64", fc.bigInt({ min: 0n, max: 2n ** 64n - 1n })],
    ["Nullable(UInt64)", fc.option(big)],
    ["Array(UInt64)", fc.array(big)],
    ["Array(Array(Int64))", fc.array(fc.array(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })))],
    ["Array(Nullable(UInt64))", fc.array(fc.option(big))],
    ["Map(String, UInt64)", fc.dictionary(fc.string(), big, { noNullPrototype: true })],
    ["Map(String, Nullable(Int64))", fc.dictionary(fc.string(), fc.option(big), { noNullPrototype: true })],
    ["Int32", fc.integer()],
    ["Array(String)", fc.array(fc.string())],
    ["LowCardinality(Nullable(String))", fc.option(fc.string())],
    ["Bool", fc.boolean()],
  ] as [string, fc.Arbitrary<never>][])("%s comes back as it went", (type, arbitrary) => {
    const encode = jsonEncoder(type);
    const decode = jsonDecoder(type);
    fc.assert(
      fc.property(arbitrary, (value) => {
        const line = JSON.parse(JSON.stringify(encode(value))) as never;
        expect(decode(line)).toEqual(value);
      }),
    );
  });

  it("a left-out value is null", () => {
    expect(jsonEncoder("Nullable(UInt64)")(undefined)).toBeNull();
    expect(jsonEncoder("String")(undefined)).toBeNull();
  });

  it.each([
    ["LowCardinality(Nullable(String))", "String"],
    ["Nullable(UInt64)", "UInt64"],
    ["UUID", "UUID"],
  ])("the plain type of %s is %s", (type, plain) => expect(plainType(type)).toBe(plain));
});
