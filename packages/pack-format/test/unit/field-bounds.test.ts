// Goal: each field type takes exactly its values and names what it takes otherwise. Method: for each type a list of values
// that must survive a pack unchanged, among them both ends of its range, and a list that must be refused.
import { describe, expect, it } from "vitest";
import {
  checkRecord,
  defineCaptureSchema,
  type CaptureRecord,
  type FieldType,
  type FieldValue,
} from "@holdfast/pack-format";
import { drain, exampleRecord, expectPackError, memorySource, packOf } from "../support.js";

const uuid = "00112233-4455-6677-8899-aabbccddeeff";
const greatest32 = 3.4028234663852886e38;
const largest = { float32: greatest32, float64: Number.MAX_VALUE };

const cases: readonly [FieldType, readonly FieldValue[], readonly unknown[]][] = [
  ["Bool", [true, false], [1, 0, "true", null]],
  ["Int8", [-128, -1, 0, 127], [-129, 128, 1.5, "1", 1n, Number.NaN]],
  ["Int16", [-32768, 32767], [-32769, 32768]],
  ["Int32", [-2147483648, 2147483647], [-2147483649, 2147483648]],
  ["Int64", [-(2n ** 63n), -1n, 2n ** 63n - 1n], [-(2n ** 63n) - 1n, 2n ** 63n, 5]],
  ["UInt8", [0, 255], [-1, 256]],
  ["UInt16", [0, 65535], [-1, 65536]],
  ["UInt32", [0, 4294967295], [-1, 4294967296]],
  ["UInt64", [0n, 2n ** 53n + 1n, 2n ** 64n - 1n], [-1n, 2n ** 64n, 5, "5"]],
  ["Float32", [0, -0, 0.5, -largest.float32, largest.float32], [Number.NaN, Infinity, 3.5e38, 1n, "0"]],
  ["Float64", [0.1, -largest.float64, largest.float64, 5e-324], [Number.NaN, -Infinity, null]],
  ["String", ["", "a", "ü𝄞\u0000\n", "x".repeat(70_000)], [null, 5, "\ud800", undefined]],
  ["UUID", [uuid], [uuid.toUpperCase(), uuid.replaceAll("-", ""), `${uuid}0`, "", null]],
  ["LowCardinality(String)", ["", "label"], [null, "\udfff", 5]],
  ["LowCardinality(Nullable(String))", [null, "", "label"], [5]],
  ["Nullable(UInt64)", [null, 0n, 2n ** 64n - 1n], [2n ** 64n, 1]],
  ["Nullable(UUID)", [null, uuid], ["x"]],
  ["Array(UInt32)", [[], [0, 4294967295]], [[-1], [1, undefined], 5, "1", new Uint32Array(2), { 0: 1 }]],
  ["Array(LowCardinality(String))", [["a", "b", "a"]], [[null]]],
  ["Array(Nullable(Int64))", [[null, 1n, null]], [[1], [undefined]]],
  ["Array(Array(Bool))", [[], [[]], [[true], [], [false, true]]], [[true], [[1]]]],
  ["Map(String, Float64)", [{}, { a: 1, b: 2.5 }], [{ a: "1" }, { a: null }, [], new Uint8Array(1), { "\ud800": 1 }]],
  // These have no entries of their own to see: taken, they would be stored as an empty map. (Red without isPlain.)
  ["Map(String, UInt8)", [{ a: 1 }], [new Map([["a", 1]]), new Set(["a"]), new Date(0), new URLSearchParams("a=1")]],
  ["Map(String, Nullable(String))", [{ a: null, constructor: "x", ["__proto__"]: "y" }], [{ a: 5 }, { a: undefined }]],
];

const schemaOf = (type: FieldType) =>
  defineCaptureSchema({ name: "one", version: 1, fields: { value: type }, orderBy: [] });
const recordWith = (value: unknown, index = 0): CaptureRecord => ({
  ...exampleRecord(index),
  fields: { value: value as FieldValue },
});

describe.each(cases)("a field of type %s", (type, taken, refused) => {
  it("gives back each value that it takes", async () => {
    const records = taken.map((value, index) => recordWith(value, index));
    const { bytes } = await packOf([records], { schema: schemaOf(type) });
    const found = await drain(memorySource(bytes));
    expect(found.error).toBeNull();
    expect(found.records.map((record) => record.fields["value"])).toEqual(taken);
  });

  it.each(refused.map((value) => [value]))("refuses %o", async (value) => {
    const refuse = () => {
      checkRecord(schemaOf(type), recordWith(value));
    };
    const error = await expectPackError(refuse, "RECORD_INVALID", "value", type);
    expect(error.field).toBe("value");
    await expectPackError(packOf([[recordWith(value)]], { schema: schemaOf(type) }), "RECORD_INVALID");
  });
});

describe("a field", () => {
  it("of type Float32 is rounded to the nearest value of that type", async () => {
    const { bytes } = await packOf([[recordWith(0.1)]], { schema: schemaOf("Float32") });
    const { records } = await drain(memorySource(bytes));
    expect(records[0]?.fields["value"]).toBe(Math.fround(0.1));
  });

  it("that can be null may be left out, and comes back as null", async () => {
    const record = { ...exampleRecord(0), fields: {} };
    const { bytes } = await packOf([[record]], { schema: schemaOf("Nullable(String)") });
    const { records } = await drain(memorySource(bytes));
    expect(records[0]?.fields).toEqual({ value: null });
  });

  it("may have the name of a property that every object has", async () => {
    const schema = defineCaptureSchema({
      name: "odd",
      version: 1,
      fields: { constructor: "Nullable(String)", toString: "Int8" },
      orderBy: [],
    });
    const inherits: CaptureRecord = { ...exampleRecord(0), fields: { toString: 1 } };
    const { bytes } = await packOf([[inherits]], { schema });
    const { records } = await drain(memorySource(bytes));
    expect(Object.entries(records[0]?.fields ?? {})).toEqual([
      ["constructor", null],
      ["toString", 1],
    ]);
    const missing: CaptureRecord = { ...exampleRecord(0), fields: {} };
    await expectPackError(packOf([[missing]], { schema }), "RECORD_INVALID", "toString", "missing");
  });
});
