import { defineCaptureSchema } from "@holdfast/pack-format";
import { packKey, type PackRef } from "@holdfast/indexer";

/** A schema with every kind of field that SQL texts and conversions treat differently. */
export const probes = defineCaptureSchema({
  name: "probes",
  version: 1,
  fields: {
    model: "LowCardinality(String)",
    layer: "Int32",
    step: "UInt64",
    ratio: "Float64",
    note: "Nullable(String)",
    shape: "Array(UInt32)",
    steps: "Array(UInt64)",
    counts: "Map(String, Int64)",
    run: "UUID",
  },
  orderBy: ["model", "layer"],
});

export const id = (n: number): string => `018f0000-0000-7000-8000-${n.toString(16).padStart(12, "0")}`;

export function ref(n: number, o: Partial<PackRef> = {}): PackRef {
  const writerId = o.writerId ?? "writer-a";
  const packId = o.packId ?? id(n);
  return {
    storeId: "store",
    key: packKey({ catalog: "probes", writerId, sequence: BigInt(n), packId }),
    packId,
    writerId,
    sequence: BigInt(n),
    bytes: 1000 + n,
    sha256: "ab".repeat(32),
    records: 3,
    ...o,
  };
}
