// Goal: the statements of the publish protocol are fixed to the character. Method: golden texts; one property on chunks.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { headStatement, membersStatement, tableReferences } from "@holdfast/indexer/catalog";
import { fencedSettings, insertSettings, readSettings } from "../../src/catalog-client.js";
import { guardStatement } from "../../src/guard.js";
import { claimantsStatement, floorStatement } from "../../src/publish/allocate.js";
import {
  manifestChunks,
  manifestStatement,
  memberCountStatement,
  publishesStatement,
  refusalStatement,
  watermarkStatement,
} from "../../src/publish/statements.js";
import { cursorStatement } from "../../src/reconcile/reconciler.js";
import { ref } from "../support/packs.js";

const tables = tableReferences("probes");
const fence = "((SELECT 1) = 1)";

describe("statements", () => {
  it.each([
    ["head", headStatement(tables)],
    ["members", membersStatement(tables)],
    ["guard", guardStatement(tables)],
    ["floor", floorStatement(tables)],
    ["claimants", claimantsStatement(tables)],
    ["manifest", manifestStatement(tables, [ref(1), ref(2)], fence)],
    ["member count", memberCountStatement(tables)],
    ["watermark", watermarkStatement(tables, fence)],
    ["publishes", publishesStatement(tables)],
    ["refusal", refusalStatement(tables, fence)],
    ["cursor", cursorStatement(tables.inventory)],
  ])("%s", (_, text) => expect(text).toMatchSnapshot());

  it("CT-10 barrier, fence and visibility are one statement", () => {
    const text = watermarkStatement(tables, fence);
    expect(text.match(/INSERT INTO/g)).toHaveLength(1);
    expect(text).toMatch(
      /^INSERT INTO `probes_index_watermark` .* WHERE ifNull\(\(SELECT index_version FROM `probes_index_watermark` .*\), 0\) < \{version:UInt64\} AND \(\(SELECT 1\) = 1\)$/,
    );
  });

  it("manifest chunks hold every pack once, in order, each within the text budget", () => {
    fc.assert(
      fc.property(fc.nat(300), fc.integer({ min: 100, max: 5000 }), (count, budget) => {
        const packs = Array.from({ length: count }, (_, n) => ref(n));
        const chunks = manifestChunks(packs, budget);
        expect(chunks.flat()).toEqual(packs);
        for (const chunk of chunks) {
          const text = manifestStatement(tables, chunk, "").length - manifestStatement(tables, [], "").length;
          expect(chunk.length === 1 || text <= budget).toBe(true);
        }
      }),
    );
  });
});

describe("settings", () => {
  const settings = { max_execution_time: 5, timeout_overflow_mode: "throw", insert_quorum: "2" };

  it.each([
    [Infinity, 5],
    [60_000, 5],
    [5_000, 5],
    [4_999, 4.999],
    [1, 0.001],
  ])("CT-12 a fenced statement with %d ms left is capped at %d s and throws", (msLeft, cap) =>
    expect(fencedSettings({ settings }, { msLeft })).toMatchObject({
      max_execution_time: cap,
      timeout_overflow_mode: "throw",
      async_insert: 0,
      insert_quorum: "2",
    }),
  );

  it("reads are sequentially consistent and writes wait for a quorum only where the lease says so", () => {
    const single = { sequentialReads: false, quorum: null, publishTimeoutMs: 5000 };
    const replicated = { sequentialReads: true, quorum: 2, publishTimeoutMs: 5000 };
    expect(readSettings(single)).not.toHaveProperty("select_sequential_consistency");
    expect(readSettings(replicated)).toMatchObject({ select_sequential_consistency: "1" });
    expect(insertSettings(single)).toEqual({ async_insert: 0, input_format_null_as_default: 1 });
    expect(insertSettings(replicated)).toMatchObject({
      insert_quorum: "2",
      insert_quorum_parallel: 0,
      insert_quorum_timeout: 5000,
    });
  });
});
