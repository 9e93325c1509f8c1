// Goal: a schema's declaration decides the TypeScript types of its records. Method: expectTypeOf, checked by tsc.
import { describe, expectTypeOf, it } from "vitest";
import {
  createPackWriter,
  defineCaptureSchema,
  type CaptureRecord,
  type CaptureSchema,
  type FieldDeclarations,
  type FieldValues,
  type PackWriter,
  type RecordInput,
  type tensor,
} from "@holdfast/pack-format";

const everything = defineCaptureSchema({
  name: "everything",
  version: 1,
  fields: {
    flag: "Bool",
    tiny: "Int8",
    wide: "UInt64",
    signed: "Int64",
    ratio: "Float32",
    name: "String",
    label: "LowCardinality(String)",
    id: "UUID",
    note: "Nullable(String)",
    count: "Nullable(UInt64)",
    group: "LowCardinality(Nullable(String))",
    shape: "Array(UInt32)",
    grid: "Array(Array(Nullable(Int64)))",
    tags: "Map(String, String)",
    sizes: "Map(String, Nullable(UInt64))",
  },
  orderBy: ["label", "wide"],
});

describe("the types of a schema", () => {
  it("are inferred field by field", () => {
    type Values = FieldValues<typeof everything>;
    expectTypeOf<Values>().toEqualTypeOf<{
      readonly flag: boolean;
      readonly tiny: number;
      readonly wide: bigint;
      readonly signed: bigint;
      readonly ratio: number;
      readonly name: string;
      readonly label: string;
      readonly id: string;
      readonly note?: string | null | undefined;
      readonly count?: bigint | null | undefined;
      readonly group?: string | null | undefined;
      readonly shape: readonly number[];
      readonly grid: readonly (readonly (bigint | null)[])[];
      readonly tags: Readonly<Record<string, string>>;
      readonly sizes: Readonly<Record<string, bigint | null>>;
    }>();
  });

  it("of the tensor schema have bigint steps and a number shape", () => {
    type Values = FieldValues<typeof tensor>;
    expectTypeOf<Values["step_number"]>().toEqualTypeOf<bigint>();
    expectTypeOf<Values["shape"]>().toEqualTypeOf<readonly number[]>();
    expectTypeOf<Values["adapter_revision"]>().toEqualTypeOf<string | null | undefined>();
  });

  it("let a record of any schema pass where a schema is not known", () => {
    expectTypeOf<CaptureRecord<typeof everything>>().toExtend<CaptureRecord>();
    expectTypeOf<typeof everything>().toExtend<CaptureSchema>();
    const generic = <F extends FieldDeclarations, S extends CaptureSchema<F>>(
      writer: PackWriter,
      record: CaptureRecord<S>,
    ) => writer.encodeBlock([record]);
    expectTypeOf(generic).toBeFunction();
    const byInput = <S extends CaptureSchema>(input: RecordInput<S>): FieldValues<S> => input.fields;
    expectTypeOf(byInput).toBeFunction();
  });

  it("refuse a wrong declaration while it is written", () => {
    const declare = () => [
      // @ts-expect-error DateTime is not a type that a pack carries
      defineCaptureSchema({ name: "x", version: 1, fields: { at: "DateTime" }, orderBy: [] }),
      // @ts-expect-error orderBy names a field that is not there
      defineCaptureSchema({ name: "x", version: 1, fields: { a: "Int8" }, orderBy: ["b"] }),
      // @ts-expect-error zstd is not written by this version
      createPackWriter({ schema: everything, packId: "", writerId: "", sequence: 0n, codec: "zstd" }),
    ];
    expectTypeOf(declare).toBeFunction();
  });

  it("refuse a number where a bigint belongs", () => {
    // @ts-expect-error a UInt64 is a bigint
    const wide: FieldValues<typeof everything>["wide"] = 5;
    expectTypeOf(wide).toEqualTypeOf<bigint>();
  });
});
