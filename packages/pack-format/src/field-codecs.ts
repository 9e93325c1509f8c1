import type { ByteCursor } from "./byte-cursor.js";
import type { ByteSink } from "./byte-sink.js";
import type { FieldValue } from "./field-types.js";
import { shown } from "./errors.js";
import { isUuid } from "./uuid.js";

/** The strings of a block that are written once and then referred to by number. */
export interface StringRefs {
  refOf(text: string): number;
}

/** How one field type is checked, written and read. `write` takes only what `check` let through. */
export interface FieldCodec {
  /** Null when `value` is allowed, else what is allowed and what was given. */
  check(value: unknown): string | null;
  write(sink: ByteSink, value: FieldValue, strings: StringRefs): void;
  read(cursor: ByteCursor, strings: readonly string[]): FieldValue;
  /** The fewest bytes that a value takes. */
  readonly leastBytes: number;
  readonly nullable: boolean;
}

const loneSurrogate = /\p{Surrogate}/u;

/** Null when `value` is a text that UTF-8 can carry. */
export function checkText(value: unknown): string | null {
  if (typeof value !== "string") return `takes a string; got ${shown(value)}`;
  return loneSurrogate.test(value) ? `takes well-formed text; got a lone surrogate in ${shown(value)}` : null;
}

/** The string that a reference read from a block stands for. */
export function readRef(cursor: ByteCursor, strings: readonly string[]): string {
  const ref = cursor.varuint();
  return strings[ref] ?? cursor.fail(`string number ${ref} of ${strings.length}`);
}

function small(width: 1 | 2 | 4, signed: boolean): FieldCodec {
  const span = 2 ** (8 * width);
  const [low, high] = signed ? [-span / 2, span / 2 - 1] : [0, span - 1];
  return {
    check: (value) =>
      typeof value === "number" && Number.isInteger(value) && value >= low && value <= high
        ? null
        : `takes a whole number from ${low} to ${high}; got ${shown(value)}`,
    write: (sink, value) => sink.integer(value as number, width),
    read: (cursor) => cursor.integer(width, signed),
    leastBytes: width,
    nullable: false,
  };
}

function large(signed: boolean): FieldCodec {
  const [low, high] = signed ? [-(2n ** 63n), 2n ** 63n - 1n] : [0n, 2n ** 64n - 1n];
  return {
    check: (value) =>
      typeof value === "bigint" && value >= low && value <= high
        ? null
        : `takes a bigint from ${low.toString()} to ${high.toString()}; got ${shown(value)}`,
    write: (sink, value) => (signed ? sink.i64(value as bigint) : sink.u64(value as bigint)),
    read: (cursor) => (signed ? cursor.i64() : cursor.u64()),
    leastBytes: 8,
    nullable: false,
  };
}

const largestFloat32 = 3.4028234663852886e38;

// Not-a-number and the infinities have no JSON text, so a catalog row could not carry them faithfully.
function float(width: 4 | 8): FieldCodec {
  const fits = (value: number): boolean => Number.isFinite(width === 4 ? Math.fround(value) : value);
  return {
    check: (value) =>
      typeof value === "number" && fits(value)
        ? null
        : `takes a finite number${width === 4 ? ` up to ${largestFloat32} either way` : ""}; got ${shown(value)}` +
          " (a missing value is null in a Nullable field)",
    write: (sink, value) => (width === 4 ? sink.f32(value as number) : sink.f64(value as number)),
    read: (cursor) => {
      const value = width === 4 ? cursor.f32() : cursor.f64();
      return Number.isFinite(value) ? value : cursor.fail("a float is not finite");
    },
    leastBytes: width,
    nullable: false,
  };
}

const bool: FieldCodec = {
  check: (value) => (typeof value === "boolean" ? null : `takes true or false; got ${shown(value)}`),
  write: (sink, value) => sink.u8(value === true ? 1 : 0),
  read: (cursor) => readFlag(cursor),
  leastBytes: 1,
  nullable: false,
};

const text: FieldCodec = {
  check: checkText,
  write: (sink, value) => sink.text(value as string),
  read: (cursor) => cursor.text(),
  leastBytes: 1,
  nullable: false,
};

const sharedText: FieldCodec = {
  check: checkText,
  write: (sink, value, strings) => sink.varuint(strings.refOf(value as string)),
  read: (cursor, strings) => readRef(cursor, strings),
  leastBytes: 1,
  nullable: false,
};

const uuid: FieldCodec = {
  check: (value) => (isUuid(value) ? null : `takes a UUID in lower case with dashes; got ${shown(value)}`),
  write: (sink, value) => sink.uuid(value as string),
  read: (cursor) => cursor.uuid(),
  leastBytes: 16,
  nullable: false,
};

function readFlag(cursor: ByteCursor): boolean {
  const flag = cursor.u8();
  return flag > 1 ? cursor.fail(`a flag byte is ${flag}, neither 0 nor 1`) : flag === 1;
}

function nullable(inner: FieldCodec): FieldCodec {
  return {
    check: (value) => (value === null || value === undefined ? null : inner.check(value)),
    write: (sink, value, strings) => {
      sink.u8(value === null ? 1 : 0);
      if (value !== null) inner.write(sink, value, strings);
    },
    read: (cursor, strings) => (readFlag(cursor) ? null : inner.read(cursor, strings)),
    leastBytes: 1,
    nullable: true,
  };
}

function array(inner: FieldCodec): FieldCodec {
  return {
    check: (value) => {
      if (!Array.isArray(value)) return `takes an array; got ${shown(value)}`;
      for (const [index, item] of (value as unknown[]).entries()) {
        const problem = item === undefined ? "is missing (null is written as null)" : inner.check(item);
        if (problem !== null) return `item ${index} ${problem}`;
      }
      return null;
    },
    write: (sink, value, strings) => {
      const items = value as readonly FieldValue[];
      sink.varuint(items.length);
      for (const item of items) inner.write(sink, item, strings);
    },
    read: (cursor, strings) => {
      const items: FieldValue[] = [];
      for (let left = cursor.count(inner.leastBytes); left > 0; left -= 1) items.push(inner.read(cursor, strings));
      return items;
    },
    leastBytes: 1,
    nullable: false,
  };
}

/**
 * Whether `value` is an object literal, of any realm, or one without a prototype. The entries of a `Map` and the like are no
 * properties: it would be written as an empty object, and what it holds be lost without a word.
 */
function isPlain(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function map(inner: FieldCodec): FieldCodec {
  return {
    check: (value) => {
      if (!isPlain(value)) return `takes a plain object of string keys; got ${shown(value)}`;
      for (const [key, item] of Object.entries(value)) {
        const problem = checkText(key) ?? (item === undefined ? "is missing" : inner.check(item));
        if (problem !== null) return `key ${shown(key)} ${problem}`;
      }
      return null;
    },
    write: (sink, value, strings) => {
      const entries = Object.entries(value as Record<string, FieldValue>);
      sink.varuint(entries.length);
      for (const [key, item] of entries) {
        sink.varuint(strings.refOf(key));
        inner.write(sink, item, strings);
      }
    },
    read: (cursor, strings) => {
      const entries = new Map<string, FieldValue>();
      for (let left = cursor.count(1 + inner.leastBytes); left > 0; left -= 1) {
        const key = readRef(cursor, strings);
        if (entries.has(key)) cursor.fail(`key ${shown(key)} comes twice in a map`);
        entries.set(key, inner.read(cursor, strings));
      }
      // fromEntries defines own properties, so a key such as __proto__ is data like any other.
      return Object.fromEntries(entries);
    },
    leastBytes: 1,
    nullable: false,
  };
}

const scalars: ReadonlyMap<string, FieldCodec> = new Map([
  ["Bool", bool],
  ["Int8", small(1, true)],
  ["Int16", small(2, true)],
  ["Int32", small(4, true)],
  ["Int64", large(true)],
  ["UInt8", small(1, false)],
  ["UInt16", small(2, false)],
  ["UInt32", small(4, false)],
  ["UInt64", large(false)],
  ["Float32", float(4)],
  ["Float64", float(8)],
  ["String", text],
  ["UUID", uuid],
]);

const elements = new Map<string, FieldCodec>([
  ...scalars,
  ["LowCardinality(String)", sharedText],
  ["LowCardinality(Nullable(String))", nullable(sharedText)],
  ...[...scalars].map(([name, codec]): [string, FieldCodec] => [`Nullable(${name})`, nullable(codec)]),
]);

const codecs: ReadonlyMap<string, FieldCodec> = new Map([
  ...elements,
  ...[...elements].flatMap(([name, codec]): [string, FieldCodec][] => [
    [`Array(${name})`, array(codec)],
    [`Array(Array(${name}))`, array(array(codec))],
    [`Map(String, ${name})`, map(codec)],
  ]),
]);

/** The codec of a field type, or undefined when the type is not one that a pack can carry. */
export function codecOf(type: string): FieldCodec | undefined {
  return codecs.get(type);
}

/** Types that can stand in `orderBy`: one value, never null. */
export function canOrder(type: string): boolean {
  return scalars.has(type) || type === "LowCardinality(String)";
}

/** The allowed types in words, for error messages. */
export const allowedTypes =
  `${[...scalars.keys()].join(", ")}, LowCardinality(String), LowCardinality(Nullable(String)), Nullable(T), ` +
  "Array(T), Array(Array(T)) and Map(String, T), T being one of the plain types before them";
