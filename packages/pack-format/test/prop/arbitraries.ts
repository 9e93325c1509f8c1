// Random schemas, and random records of them.
import fc from "fast-check";
import {
  defineCaptureSchema,
  type CaptureRecord,
  type CaptureSchema,
  type FieldType,
  type FieldValue,
} from "@holdfast/pack-format";

const uuid = fc.uuid();
const text = fc.string({ unit: "binary", maxLength: 20 });
const label = fc.constantFrom("", "a", "b", "a longer label", "ünïcödé 𝄞");

const scalars: Readonly<Record<string, fc.Arbitrary<FieldValue>>> = {
  Bool: fc.boolean(),
  Int8: fc.integer({ min: -128, max: 127 }),
  Int16: fc.integer({ min: -32768, max: 32767 }),
  Int32: fc.integer(),
  Int64: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  UInt8: fc.integer({ min: 0, max: 255 }),
  UInt16: fc.integer({ min: 0, max: 65535 }),
  UInt32: fc.integer({ min: 0, max: 4294967295 }),
  UInt64: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  Float32: fc.float({ noNaN: true, noDefaultInfinity: true }),
  Float64: fc.double({ noNaN: true, noDefaultInfinity: true }),
  String: text,
  UUID: uuid,
};

const elements: [string, fc.Arbitrary<FieldValue>][] = [
  ...Object.entries(scalars),
  ["LowCardinality(String)", label],
  ["LowCardinality(Nullable(String))", fc.option(label)],
  ...Object.entries(scalars).map(([type, value]): [string, fc.Arbitrary<FieldValue>] => [
    `Nullable(${type})`,
    fc.option(value),
  ]),
];

const types: [string, fc.Arbitrary<FieldValue>][] = [
  ...elements,
  ...elements.flatMap(([type, value]): [string, fc.Arbitrary<FieldValue>][] => [
    [`Array(${type})`, fc.array(value, { maxLength: 5 })],
    [`Array(Array(${type}))`, fc.array(fc.array(value, { maxLength: 3 }), { maxLength: 3 })],
    [`Map(String, ${type})`, fc.dictionary(text, value, { maxKeys: 4, noNullPrototype: true })],
  ]),
];

const name = fc.string({ unit: "binary", minLength: 1, maxLength: 12 });

function recordsOf(values: Readonly<Record<string, fc.Arbitrary<FieldValue>>>): fc.Arbitrary<CaptureRecord[]> {
  const record: fc.Arbitrary<CaptureRecord> = fc.record({
    captureId: fc.oneof(uuid, name),
    capturedAtNs: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
    scope: fc.record({ tenant: name, session: name }, { noNullPrototype: true }),
    fields: fc.record(values, { noNullPrototype: true }),
    payload: fc.oneof(
      fc.uint8Array({ maxLength: 300 }),
      fc.integer({ min: 0, max: 70_000 }).map((bytes) => new Uint8Array(bytes).fill(bytes)),
    ),
  });
  return fc.uniqueArray(record, { selector: (each) => each.captureId, maxLength: 12 });
}

/** A schema of random fields, and groups of records of it with unique ids. */
export const schemaAndGroups: fc.Arbitrary<{ schema: CaptureSchema; groups: CaptureRecord[][] }> = fc
  .array(fc.constantFrom(...types), { maxLength: 8 })
  .chain((chosen) => {
    const named = chosen.map(([type, value], index) => ({ field: `f${index}`, type: type as FieldType, value }));
    const fields = Object.fromEntries(named.map(({ field, type }) => [field, type]));
    const schema = defineCaptureSchema({ name: "random", version: 1, fields, orderBy: [] });
    const values = Object.fromEntries(named.map(({ field, value }) => [field, value]));
    return fc
      .tuple(recordsOf(values), fc.integer({ min: 1, max: 6 }))
      .map(([records, size]) => ({ schema, groups: inGroups(records, size) }));
  });

function inGroups(records: readonly CaptureRecord[], size: number): CaptureRecord[][] {
  const groups: CaptureRecord[][] = [];
  for (let at = 0; at < records.length; at += size) groups.push(records.slice(at, at + size));
  return groups;
}
