// Goal: whatever a schema and its records are, they come out of a pack as they went in. Method: random schemas over all
// types, random records, grouping, codec and alignment; read by index, from the front, and after salvage.
import fc from "fast-check";
import { createHash } from "node:crypto";
import { crc32 } from "node:zlib";
import { describe, expect, it } from "vitest";
import { decodePayload, payloadRange, readPackIndex, resumePack, schemaIdOf } from "@holdfast/pack-format";
import { crcOfBoth } from "../../src/crc.js";
import { drain, expectRecords, memorySource, packOf } from "../support.js";
import { schemaAndGroups } from "./arbitraries.js";

const codec = fc.constantFrom("none" as const, "gzip" as const);
const alignment = fc.constantFrom(1, 8, 64, 4096);

describe("any pack", () => {
  it("gives back its schema and records, by index and from the front", async () => {
    await fc.assert(
      fc.asyncProperty(schemaAndGroups, codec, alignment, async ({ schema, groups }, codec, alignment) => {
        const { bytes, blocks } = await packOf(groups, { schema, codec, alignment });
        const index = await readPackIndex(memorySource(bytes));
        expect(schemaIdOf(index.schema)).toBe(schemaIdOf(schema));
        expect(index.packSize).toBe(bytes.length);
        expect(index.bodySha256).toBe(createHash("sha256").update(bytes.subarray(0, -64)).digest("hex"));
        const found = [];
        for (const { locator, ...record } of index.records) {
          const { offset, length } = payloadRange(locator);
          found.push({ ...record, payload: await decodePayload(locator, bytes.subarray(offset, offset + length)) });
        }
        expectRecords(found, groups.flat());
        const front = await drain(memorySource(bytes));
        expect(front.error).toBeNull();
        expectRecords(front.records, groups.flat());
        expect(blocks.map((block) => block.end).sort((a, b) => a - b)).toEqual(blocks.map((block) => block.end));
      }),
      { numRuns: 150 },
    );
  }, 60_000);

  it("SP-04 salvaged at any of its block borders seals to the bytes of a clean seal", async () => {
    await fc.assert(
      fc.asyncProperty(
        schemaAndGroups,
        codec,
        alignment,
        fc.nat(),
        async ({ schema, groups }, codec, alignment, pick) => {
          const kept = groups.slice(0, pick % (groups.length + 1));
          const clean = await packOf(kept, { schema, codec, alignment });
          const whole = await packOf(groups, { schema, codec, alignment });
          const prefix = whole.bytes.subarray(0, clean.unsealedBytes);
          const { writer, goodBytes, problem } = await resumePack(memorySource(prefix));
          expect({ goodBytes, problem }).toEqual({ goodBytes: clean.unsealedBytes, problem: null });
          const sealed = Buffer.concat([prefix, (await writer.finish()).bytes]);
          expect(Buffer.compare(sealed, clean.bytes)).toBe(0);
          const again = await (await resumePack(memorySource(sealed))).writer.finish();
          expect(again.packSha256).toBe(createHash("sha256").update(clean.bytes).digest("hex"));
        },
      ),
      { numRuns: 60 },
    );
  }, 60_000);
});

describe("joined checksums", () => {
  it("are those of the bytes in one piece", () => {
    fc.assert(
      fc.property(fc.uint8Array(), fc.uint8Array({ maxLength: 5000 }), (a, b) => {
        expect(crcOfBoth(crc32(a), crc32(b), b.length)).toBe(crc32(Buffer.concat([a, b])));
      }),
    );
    const zeros = Buffer.alloc(200_000_000);
    expect(crcOfBoth(crc32("a"), crc32(zeros), zeros.length)).toBe(crc32(zeros, crc32("a")));
  });
});
