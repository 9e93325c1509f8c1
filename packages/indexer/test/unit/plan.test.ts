// Goal: what a pass takes on, and whom it blames. Method: the pure parts of plan and read.
import { describe, expect, it } from "vitest";
import { ObjectStoreError } from "@holdfast/object-store";
import { PackError, type PackIndex } from "@holdfast/pack-format";
import { split, withoutDuplicates } from "../../src/steps/plan.js";
import { failureOf, problemOf } from "../../src/steps/read.js";
import { id, probes, ref } from "../support/packs.js";

describe("plan", () => {
  it("references to one pack that agree collapse; those that differ each fail, and nothing else does", () => {
    const { unique, repeated, failures } = withoutDuplicates(
      [ref(1), ref(1), ref(2), ref(3), ref(3, { bytes: 9 })],
      "store",
    );
    expect(unique).toEqual([ref(1), ref(2)]);
    expect(repeated).toBe(1);
    expect(failures.map((each) => [each.pack.bytes, each.code, each.kind])).toEqual([
      [1003, "PACK_CONFLICT", "pack"],
      [9, "PACK_CONFLICT", "pack"],
    ]);
  });

  it("a reference into another store is a failure that names both stores", () => {
    const { unique, failures } = withoutDuplicates([ref(1, { storeId: "other" })], "store");
    expect(unique).toEqual([]);
    expect(failures).toMatchObject([{ code: "PACK_MISMATCH", kind: "pack" }]);
    expect(failures[0]?.message).toContain("other");
  });

  it("what the guard knows is dropped; what is visible without an inventory row is owed only that", () => {
    const known = new Map([
      [ref(1).key, { inventoried: true, version: 4n }],
      [ref(2).key, { inventoried: false, version: 5n }],
    ]);
    expect(split([ref(1), ref(2), ref(3)], known)).toEqual({
      wanted: [ref(3)],
      unlisted: [{ pack: ref(2), version: 5n }],
    });
  });
});

describe("whom a read blames", () => {
  const pack = ref(1);
  const index = (o: { header?: object; schema?: object; records?: number } = {}): PackIndex =>
    ({
      header: { packId: pack.packId, writerId: pack.writerId, sequence: pack.sequence, ...o.header },
      schema: { ...probes, ...o.schema },
      records: Array.from({ length: o.records ?? 3 }),
    }) as unknown as PackIndex;

  it.each<[string, PackIndex, object | null]>([
    ["a pack as referenced", index(), null],
    ["CT-24 another schema is foreign", index({ schema: { name: "other" } }), { kind: "foreign" }],
    ["CT-24 a newer schema version waits", index({ schema: { version: 2 } }), { kind: "waiting-for-schema" }],
    ["another pack id", index({ header: { packId: id(9) } }), { kind: "pack", code: "PACK_MISMATCH" }],
    ["another writer", index({ header: { writerId: "b" } }), { kind: "pack", code: "PACK_MISMATCH" }],
    ["another number", index({ header: { sequence: 2n } }), { kind: "pack", code: "PACK_MISMATCH" }],
    ["another record count", index({ records: 2 }), { kind: "pack", code: "PACK_MISMATCH" }],
    ["a field of another type", index({ schema: { fields: { model: "Int8" } } }), { kind: "pack" }],
    ["a field that the schema lacks", index({ schema: { fields: { extra: "Int8" } } }), { kind: "pack" }],
  ])("%s", (_, read, expected) => {
    const problem = problemOf(pack, read, probes);
    if (expected === null) expect(problem).toBeNull();
    else expect(problem).toMatchObject(expected);
  });

  it.each<[unknown, string]>([
    [new PackError("PACK_CORRUPT", "x"), "pack"],
    [new PackError("PACK_TRUNCATED", "x"), "pack"],
    [new PackError("PACK_VERSION_UNSUPPORTED", "x"), "waiting-for-schema"],
    [new PackError("UNSUPPORTED_CODEC", "x"), "waiting-for-schema"],
    [new ObjectStoreError("NOT_FOUND", "x"), "pack"],
    [new ObjectStoreError("INVALID_RANGE", "x"), "pack"],
    [new ObjectStoreError("UNAVAILABLE", "x"), "store"],
    [new ObjectStoreError("ACCESS_DENIED", "x"), "store"],
    [new Error("socket hang up"), "store"],
  ])("%s is laid to the charge of the %s", (error, kind) => expect(failureOf(pack, error).kind).toBe(kind));
});
