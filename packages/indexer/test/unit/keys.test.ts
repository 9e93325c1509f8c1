// Goal: the key layout is fixed to the character. Method: golden texts, refusals, and a property: parse undoes build.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  catalogPrefix,
  greatestSequence,
  listFrom,
  packKey,
  packMetadata,
  packRefFromInfo,
  parsePackKey,
  voidKey,
  writerPrefix,
} from "@holdfast/indexer";
import { id, ref } from "../support/packs.js";

const info = (key: string, metadata: Record<string, string>) => ({
  key,
  size: 1001,
  etag: "e",
  metadata,
  modifiedAtMs: 0,
});

describe("keys", () => {
  it("pack and void keys are these texts", () => {
    const name = { catalog: "activations", writerId: "host-1", sequence: 42n };
    expect(packKey({ ...name, packId: id(7) })).toBe(
      "v1/activations/w=host-1/0000000000000042-018f0000-0000-7000-8000-000000000007.hfpack",
    );
    expect(voidKey(name)).toBe("v1/activations/w=host-1/0000000000000042-void.hfpack");
    expect(writerPrefix(name)).toBe("v1/activations/w=host-1/");
    expect(catalogPrefix("activations")).toBe("v1/activations/");
  });

  it("what cannot stand in a key is refused with KEY_INVALID, naming the value", () => {
    const good = { catalog: "c", writerId: "w", sequence: 0n, packId: id(1) };
    const bad = [
      { ...good, writerId: "a/b" },
      { ...good, writerId: "" },
      { ...good, writerId: "-a" },
      { ...good, writerId: "a".repeat(65) },
      { ...good, sequence: -1n },
      { ...good, sequence: greatestSequence + 1n },
      { ...good, packId: id(1).toUpperCase() },
      { ...good, packId: "void" },
    ];
    for (const each of bad) {
      expect(() => packKey(each)).toThrow(expect.objectContaining({ code: "KEY_INVALID" }) as Error);
    }
    expect(() => packKey({ ...good, writerId: "a/b" })).toThrow(/"a\/b"/);
    expect(() => packKey({ ...good, catalog: "../x" })).toThrow(
      expect.objectContaining({ code: "CATALOG_NAME_INVALID" }) as Error,
    );
  });

  it("parse undoes build, and keys sort as their numbers do", () => {
    const sequence = fc.bigInt({ min: 0n, max: greatestSequence });
    const writer = fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9_-]{0,12}$/);
    fc.assert(
      fc.property(writer, sequence, sequence, fc.nat(1000), (writerId, a, b, n) => {
        const name = { catalog: "c", writerId };
        const key = packKey({ ...name, sequence: a, packId: id(n) });
        expect(parsePackKey(key)).toEqual({ ...name, sequence: a, packId: id(n) });
        expect(parsePackKey(voidKey({ ...name, sequence: a }))).toEqual({ ...name, sequence: a, packId: null });
        const other = packKey({ ...name, sequence: b, packId: id(n) });
        expect(key < other).toBe(a < b);
        const from = listFrom({ ...name, sequence: b });
        expect(from < key).toBe(a >= b);
      }),
    );
  });

  it.each([
    "v1/c/w=a/0000000000000001-nopack.hfpack",
    "v1/c/w=a/1-018f0000-0000-7000-8000-000000000007.hfpack",
    "v1/c/w=a/0000000000000001-018f0000-0000-7000-8000-000000000007.pack",
    "v2/c/w=a/0000000000000001-018f0000-0000-7000-8000-000000000007.hfpack",
    "v1/c/a/0000000000000001-018f0000-0000-7000-8000-000000000007.hfpack",
    "v1/c/w=a/b/0000000000000001-018f0000-0000-7000-8000-000000000007.hfpack",
    "v1/c/w=a/0000000000000001-018F0000-0000-7000-8000-000000000007.hfpack",
    "",
  ])("%j is not a pack's key", (key) => expect(parsePackKey(key)).toBeNull());
});

describe("pack metadata", () => {
  const pack = ref(1);
  const metadata = packMetadata({ ...pack, schema: { name: "probes", version: 3 } });

  it("has these entries", () =>
    expect(metadata).toEqual({
      "holdfast-format": "pack-0",
      "holdfast-pack-id": pack.packId,
      "holdfast-sha256": pack.sha256,
      "holdfast-records": "3",
      "holdfast-schema": "probes/3",
    }));

  it("gives the reference back", () => expect(packRefFromInfo("store", info(pack.key, metadata))).toEqual(pack));

  it("an object whose key or metadata is not a pack's is foreign", () => {
    const wrong: Record<string, string>[] = [
      {},
      { ...metadata, "holdfast-format": "pack-9" },
      { ...metadata, "holdfast-pack-id": id(2) },
      { ...metadata, "holdfast-sha256": "AB".repeat(32) },
      { ...metadata, "holdfast-records": "0" },
      { ...metadata, "holdfast-records": "1000001" },
      { ...metadata, "holdfast-records": "3x" },
    ];
    for (const each of wrong) expect(packRefFromInfo("store", info(pack.key, each))).toBeNull();
    expect(packRefFromInfo("store", info("v1/probes/readme.txt", metadata))).toBeNull();
    const none = voidKey({ catalog: "probes", writerId: "w", sequence: 1n });
    expect(packRefFromInfo("store", info(none, metadata))).toBeNull();
  });
});
