/** A type of one value: no array, no map, no null. */
export type ScalarType =
  | "Bool"
  | "Int8"
  | "Int16"
  | "Int32"
  | "Int64"
  | "UInt8"
  | "UInt16"
  | "UInt32"
  | "UInt64"
  | "Float32"
  | "Float64"
  | "String"
  | "UUID";

/** What may stand inside `Array(…)` and as the value of a `Map(String, …)`. */
export type ElementType =
  ScalarType | "LowCardinality(String)" | "LowCardinality(Nullable(String))" | `Nullable(${ScalarType})`;

/** A field's type, as ClickHouse writes it. */
export type FieldType =
  ElementType | `Array(${ElementType})` | `Array(Array(${ElementType}))` | `Map(String, ${ElementType})`;

/** Field names to types, in the order in which they are declared. */
export type FieldDeclarations = Readonly<Record<string, FieldType>>;

/** Any value that a field can have. */
export type FieldValue =
  boolean | number | bigint | string | null | readonly FieldValue[] | { readonly [key: string]: FieldValue };

/** The TypeScript type of a field type: 64-bit integers are `bigint`, smaller ones and floats `number`. */
export type ValueOf<T extends string> = T extends "Bool"
  ? boolean
  : T extends "Int64" | "UInt64"
    ? bigint
    : T extends "Int8" | "Int16" | "Int32" | "UInt8" | "UInt16" | "UInt32" | "Float32" | "Float64"
      ? number
      : T extends "String" | "UUID" | "LowCardinality(String)"
        ? string
        : T extends "LowCardinality(Nullable(String))"
          ? string | null
          : T extends `Nullable(${infer Inner})`
            ? ValueOf<Inner> | null
            : T extends `Array(${infer Inner})`
              ? readonly ValueOf<Inner>[]
              : T extends `Map(String, ${infer Inner})`
                ? Readonly<Record<string, ValueOf<Inner>>>
                : never;

type NullableType = `Nullable(${ScalarType})` | "LowCardinality(Nullable(String))";
type NullableKeys<F> = { [K in keyof F]: F[K] extends NullableType ? K : never }[keyof F];
type Flat<T> = { [K in keyof T]: T[K] };

/** The values of declared fields; those that can be null may also be left out. */
export type FieldValuesOf<F extends FieldDeclarations> = string extends keyof F
  ? Readonly<Record<string, FieldValue | undefined>>
  : Flat<
      { readonly [K in Exclude<keyof F, NullableKeys<F>>]: ValueOf<F[K]> } & {
        readonly [K in NullableKeys<F>]?: ValueOf<F[K]> | undefined;
      }
    >;
