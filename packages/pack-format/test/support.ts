// What the tests of this package share: a schema, records, packs with known block borders, and a strict source.
import {
  createPackWriter,
  defineCaptureSchema,
  PackError,
  readRecords,
  type ByteSource,
  type CaptureRecord,
  type CaptureSchema,
  type Codec,
  type PackErrorCode,
} from "@holdfast/pack-format";
import { isDeepStrictEqual } from "node:util";
import { expect } from "vitest";

export const ids = {
  packId: "0190a5b4-7c11-7d3e-8f21-5b6a7c8d9e0f",
  writerId: "6f1c0d2e-3a4b-4c5d-8e6f-708192a3b4c5",
};

export const exampleSchema = defineCaptureSchema({
  name: "example",
  version: 1,
  fields: {
    model: "LowCardinality(String)",
    layer: "Int32",
    step: "UInt64",
    note: "Nullable(String)",
    shape: "Array(UInt32)",
    tags: "Map(String, String)",
  },
  orderBy: ["model", "layer"],
});

export type ExampleRecord = CaptureRecord<typeof exampleSchema>;

export function exampleRecord(
  index: number,
  payload: Uint8Array = new Uint8Array(index * 100).fill(index),
): ExampleRecord {
  return {
    captureId: `0190a5b4-7c11-7d3e-8f21-${index.toString(16).padStart(12, "0")}`,
    capturedAtNs: 1_700_000_000_000_000_000n + BigInt(index),
    scope: { tenant: "acme", session: "run-1" },
    fields: {
      model: "tiny",
      layer: index - 1,
      step: 2n ** 64n - 1n - BigInt(index),
      note: index % 2 === 0 ? null : `note ${index} ü`,
      shape: [index, 3],
      tags: { color: "red", index: String(index) },
    },
    payload,
  };
}

export type SamplePack = {
  /** The whole object. */
  readonly bytes: Buffer;
  readonly unsealedBytes: number;
  /** For each block: where it ends, and the records up to there. */
  readonly blocks: readonly {
    readonly start: number;
    readonly end: number;
    readonly records: readonly CaptureRecord[];
  }[];
  readonly openingBytes: number;
  readonly options: PackOptions;
};

export type PackOptions = { readonly codec?: Codec; readonly alignment?: number; readonly schema?: CaptureSchema };

/** A pack whose groups of records are one block each (they must fit). */
export async function packOf(
  groups: readonly (readonly CaptureRecord[])[],
  options: PackOptions = {},
): Promise<SamplePack> {
  const writer = createPackWriter({ schema: exampleSchema, ...ids, sequence: 7n, ...options });
  const parts = [writer.header];
  const blocks: { start: number; end: number; records: readonly CaptureRecord[] }[] = [];
  for (const records of groups) {
    const start = writer.size;
    parts.push(await writer.encodeBlock(records));
    blocks.push({ start, end: writer.size, records });
  }
  const unsealedBytes = writer.size;
  parts.push((await writer.finish()).bytes);
  return { bytes: Buffer.concat(parts), unsealedBytes, blocks, openingBytes: writer.header.byteLength, options };
}

export type StrictSource = ByteSource & { readonly reads: { offset: number; length: number }[] };

/** A source over memory that refuses every read beyond its end. */
export function memorySource(bytes: Uint8Array): StrictSource {
  const reads: { offset: number; length: number }[] = [];
  return {
    size: bytes.byteLength,
    reads,
    read: async (offset, length) => {
      reads.push({ offset, length });
      if (offset < 0 || length < 1 || offset + length > bytes.byteLength)
        throw new RangeError("read beyond the source");
      return new Uint8Array(bytes.subarray(offset, offset + length));
    },
  };
}

/** All records that come from the front, and the error that ended the reading, if one did. */
export async function drain(source: ByteSource): Promise<{ records: CaptureRecord[]; error: unknown }> {
  const records: CaptureRecord[] = [];
  try {
    for await (const record of readRecords(source)) records.push(record);
  } catch (error) {
    return { records, error };
  }
  return { records, error: null };
}

/** Expects `work` to fail with a PackError of this code, whose message has all of these parts. */
export async function expectPackError(
  work: Promise<unknown> | (() => unknown),
  code: PackErrorCode,
  ...parts: readonly string[]
): Promise<PackError> {
  let error: unknown;
  try {
    await (typeof work === "function" ? work() : work);
  } catch (caught) {
    error = caught;
  }
  return asPackError(error, code, ...parts);
}

/** Expects `error` to be a PackError of this code, whose message has all of these parts. */
export function asPackError(error: unknown, code: PackErrorCode, ...parts: readonly string[]): PackError {
  expect(error).toBeInstanceOf(PackError);
  const found = error as PackError;
  expect(found.code).toBe(code);
  expect(found.message.startsWith(`[${code}] `)).toBe(true);
  for (const part of parts) expect(found.message).toContain(part);
  return found;
}

/** Expects these very records. */
export function expectRecords(found: readonly CaptureRecord[], expected: readonly CaptureRecord[]): void {
  // toEqual looks at payloads value by value, which takes seconds for a MiB: it only has to explain what differs.
  if (isDeepStrictEqual(found.map(comparable), expected.map(comparable))) return;
  const metadata = (records: readonly CaptureRecord[]) =>
    records.map(({ payload, ...rest }) => ({ ...rest, payload: Buffer.from(payload).toString("hex") }));
  expect(metadata(found)).toEqual(metadata(expected));
  throw new Error("the records differ in something that toEqual does not see");
}

function comparable({ payload, ...rest }: CaptureRecord): unknown {
  return { ...rest, payload: Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength) };
}
