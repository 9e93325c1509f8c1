import type { FieldValue } from "@holdfast/pack-format";

/** A value as it stands in a JSONEachRow line: 64-bit integers are strings, everything else is itself. */
export type JsonValue = boolean | number | string | null | readonly JsonValue[] | { readonly [key: string]: JsonValue };

type Convert<From, To> = (value: From) => To;

/** null: values of this type are the same in both worlds, so nothing has to be walked. */
type Conversion = {
  readonly toJson: Convert<FieldValue, JsonValue>;
  readonly fromJson: Convert<JsonValue, FieldValue>;
} | null;

const wide: Conversion = {
  toJson: (value) => (typeof value === "bigint" ? value.toString() : (value as JsonValue)),
  fromJson: (value) => (typeof value === "string" || typeof value === "number" ? BigInt(value) : value),
};

const wrappers: readonly [prefix: string, wrap: (inner: Conversion) => Conversion][] = [
  ["Nullable(", (inner) => inner],
  ["LowCardinality(", (inner) => inner],
  ["Array(", (inner) => mapped((value, one) => (value as readonly never[]).map(one), inner)],
  [
    "Map(String, ",
    (inner) =>
      mapped(
        (value, one) => Object.fromEntries(Object.entries(value as object).map(([k, v]) => [k, one(v as never)])),
        inner,
      ),
  ],
];

function mapped(walk: (value: unknown, one: (inner: never) => unknown) => unknown, inner: Conversion): Conversion {
  if (inner === null) return null;
  return {
    toJson: (value) => walk(value, inner.toJson) as JsonValue,
    fromJson: (value) => walk(value, inner.fromJson) as FieldValue,
  };
}

function conversionOf(type: string): Conversion {
  for (const [prefix, wrap] of wrappers) {
    if (type.startsWith(prefix)) return wrap(conversionOf(type.slice(prefix.length, -1)));
  }
  return type === "Int64" || type === "UInt64" ? wide : null;
}

/** How a field of this type goes into a JSONEachRow line. A left-out value is null. */
export function jsonEncoder(type: string): (value: FieldValue | undefined) => JsonValue {
  const conversion = conversionOf(type);
  if (conversion === null) return (value) => (value ?? null) as JsonValue;
  return (value) => (value === undefined || value === null ? null : conversion.toJson(value));
}

/** The reverse of jsonEncoder, for rows read with quoted 64-bit integers. */
export function jsonDecoder(type: string): (value: JsonValue) => FieldValue {
  const conversion = conversionOf(type);
  if (conversion === null) return (value) => value;
  return (value) => (value === null ? null : conversion.fromJson(value));
}

/** The type without LowCardinality and Nullable: what a statement parameter for one such value is declared as. */
export function plainType(type: string): string {
  for (const prefix of ["LowCardinality(", "Nullable("]) {
    if (type.startsWith(prefix)) return plainType(type.slice(prefix.length, -1));
  }
  return type;
}
