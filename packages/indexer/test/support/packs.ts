import { defineCaptureSchema, type CaptureRecord } from "@holdfast/pack-format";
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

/** Records of `probes` whose values and sizes all differ. */
export function probeRecords(
  from: number,
  count: number,
  o: { tenant?: string; session?: string } = {},
): CaptureRecord<typeof probes>[] {
  return Array.from({ length: count }, (_, at) => {
    const n = from + at;
    return {
      captureId: `capture-${String(n)}`,
      capturedAtNs: 1_700_000_000_000_000_000n + BigInt(n),
      scope: { tenant: o.tenant ?? "t", session: o.session ?? "s" },
      fields: {
        model: `model ${String(n % 3)}`,
        layer: n % 7,
        step: 2n ** 63n + BigInt(n),
        ratio: n / 7,
        note: n % 2 === 0 ? null : `it's "${String(n)}"\n\t\\ ü`,
        shape: [n, 2],
        steps: [BigInt(n), 2n ** 64n - 1n],
        counts: { a: -BigInt(n), "b'": 2n },
        run: id(n),
      },
      payload: Uint8Array.from({ length: 10 + (n % 90) }, (_unused, byte) => (n * 31 + byte) % 256),
    };
  });
}
