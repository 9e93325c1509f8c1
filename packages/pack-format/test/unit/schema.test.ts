// Goal: a declaration that a catalog or a pack could not carry is refused where it is written, with what is allowed.
// Method: one table of wrong declarations; what a right one gives.
import { describe, expect, it } from "vitest";
import {
  defineCaptureSchema,
  limits,
  schemaIdOf,
  systemColumns,
  tensor,
  type CaptureSchema,
} from "@holdfast/pack-format";
import { exampleSchema, expectPackError } from "../support.js";

const right = {
  name: "right",
  version: 1,
  fields: { a: "Int8", b: "Nullable(String)", c: "Array(Int8)" },
  orderBy: ["a"],
};
const define = (over: Record<string, unknown>): CaptureSchema =>
  defineCaptureSchema({ ...right, ...over } as unknown as Parameters<typeof defineCaptureSchema>[0]);
const manyFields = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`f${index}`, "UInt8"]));

describe("a schema declaration is refused", () => {
  it.each<[string, Record<string, unknown>, string[]]>([
    ["with an upper-case name", { name: "Right" }, ["schema name", '"Right"', "a-z"]],
    ["with an empty name", { name: "" }, ["schema name"]],
    ["with a name that begins with a digit", { name: "1st" }, ["schema name"]],
    ["with a name of 49 letters", { name: "a".repeat(49) }, ["1 to 48"]],
    ["with a slash in its name", { name: "a/b" }, ["schema name"]],
    ["with version 0", { version: 0 }, ["from 1 to 2147483647", "number 0"]],
    ["with version 1.5", { version: 1.5 }, ["whole number"]],
    ["with version 2^31", { version: 2 ** 31 }, ["2147483648"]],
    ["with version 1n", { version: 1n }, ["bigint 1n"]],
    ["without fields", { fields: undefined }, ["fields"]],
    ["with fields in an array", { fields: ["a"] }, ["fields"]],
    ["with 257 fields", { fields: manyFields(257), orderBy: [] }, ["257", "256"]],
    ["with a field that begins with a digit", { fields: { "1a": "Int8" }, orderBy: [] }, ["field name", "1a"]],
    ["with a field of 65 letters", { fields: { ["a".repeat(65)]: "Int8" }, orderBy: [] }, ["1 to 64"]],
    ["with a dotted field", { fields: { "a.b": "Int8" }, orderBy: [] }, ["field name"]],
    ["with a field that begins with _", { fields: { _part: "Int8" }, orderBy: [] }, ["field name"]],
    ["with a field that begins with hf_", { fields: { hf_x: "Int8" }, orderBy: [] }, ["reserved", "hf_"]],
    [
      "with an unknown type",
      { fields: { a: "Decimal(9, 2)" } },
      ["field a", '"Decimal(9, 2)"', "UInt64", "Map(String, T)"],
    ],
    ["with a date type", { fields: { a: "DateTime64(9)" } }, ["field a", "DateTime64(9)", "allowed are"]],
    ["with a type in other letters", { fields: { a: "uint64" } }, ["uint64"]],
    ["with a nullable array", { fields: { a: "Nullable(Array(Int8))" } }, ["Nullable(Array(Int8))"]],
    ["with a type that is no text", { fields: { a: 8 } }, ["number 8"]],
    ["with a type named like a property of objects", { fields: { a: "constructor" } }, ["constructor"]],
    ["without orderBy", { orderBy: undefined }, ["orderBy"]],
    ["with an unknown field in orderBy", { orderBy: ["z"] }, ["orderBy", '"z"']],
    ["with a nullable field in orderBy", { orderBy: ["b"] }, ["orderBy", "b", "Nullable(String)"]],
    ["with an array in orderBy", { orderBy: ["c"] }, ["orderBy", "c"]],
    ["with a field twice in orderBy", { orderBy: ["a", "a"] }, ["a twice"]],
    ["with unknown rules", { rules: "image" }, ["rules", '"image"']],
    ["with tensor rules and no tensor fields", { rules: "tensor" }, ["tensor", "experiment_id"]],
  ])("%s", async (_, over, parts) => {
    await expectPackError(() => define(over), "SCHEMA_INVALID", ...parts);
  });

  it.each(systemColumns)("with the reserved field name %s", async (name) => {
    await expectPackError(
      () => define({ fields: { [name]: "Int8" }, orderBy: [] }),
      "SCHEMA_INVALID",
      name,
      "reserved",
    );
  });

  it("when it is no object", async () => {
    const define = defineCaptureSchema as (declaration: unknown) => CaptureSchema;
    for (const wrong of [null, 5, "x", []]) await expectPackError(() => define(wrong), "SCHEMA_INVALID");
  });
});

describe("a schema declaration", () => {
  it("at the limits is taken", () => {
    expect(define({ name: "a".repeat(48) }).name).toHaveLength(48);
    expect(define({ version: 2 ** 31 - 1 }).version).toBe(2147483647);
    expect(Object.keys(define({ fields: manyFields(limits.fields), orderBy: [] }).fields)).toHaveLength(256);
    expect(define({ fields: { ["a".repeat(64)]: "Int8" }, orderBy: [] })).toBeDefined();
    expect(define({ fields: {}, orderBy: [] }).fields).toEqual({});
  });

  it("gives frozen, JSON-safe data that equals what was declared", () => {
    const schema = define({});
    expect(schema).toEqual(right);
    expect(JSON.parse(JSON.stringify(schema))).toEqual(right);
    for (const part of [schema, schema.fields, schema.orderBy]) expect(Object.isFrozen(part)).toBe(true);
  });

  it("does not change when the object that it was made from does", () => {
    const fields = { a: "Int8", b: "Nullable(String)", c: "Array(Int8)" };
    const schema = define({ fields });
    fields.a = "String";
    expect(schema.fields["a"]).toBe("Int8");
  });

  it("has an id that follows everything in it, the order of fields included", () => {
    const base = schemaIdOf(exampleSchema);
    expect(base).toMatch(/^[0-9a-f]{12}$/);
    expect(schemaIdOf(JSON.parse(JSON.stringify(exampleSchema)) as CaptureSchema)).toBe(base);
    const one = schemaIdOf(define({ fields: { a: "Int8", d: "Int8" } }));
    const other = schemaIdOf(define({ fields: { d: "Int8", a: "Int8" } }));
    expect(one).not.toBe(other);
    expect(schemaIdOf(define({ version: 2 }))).not.toBe(schemaIdOf(define({})));
  });

  it("keeps the tensor rules under another name", () => {
    const mine = defineCaptureSchema({ ...tensor, name: "my_tensors", orderBy: ["run_id"] });
    expect(mine.rules).toBe("tensor");
    expect(mine.fields).toEqual(tensor.fields);
  });
});
