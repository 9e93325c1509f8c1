import { defineCaptureSchema, type ByteSource, type CaptureRecord } from "@holdfast/pack-format";

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

export function exampleRecord(index: number): CaptureRecord<typeof exampleSchema> {
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
    payload: new Uint8Array(index * 100).fill(index),
  };
}

/** A source over memory that refuses every read beyond its end. */
export function memorySource(bytes: Uint8Array): ByteSource & { readonly reads: { offset: number; length: number }[] } {
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
