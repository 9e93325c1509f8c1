// Goal: what goes into a pack comes out of it, by each of the ways in. Method: one small pack through writer, index
// reader, record reader and salvage.
import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import {
  createPackWriter,
  decodePayload,
  payloadRange,
  readPackIndex,
  readRecords,
  resumePack,
  type Codec,
} from "@holdfast/pack-format";
import { exampleRecord, exampleSchema, ids, memorySource } from "../support.js";

const records = [0, 1, 2, 3].map((index) => exampleRecord(index));

async function samplePack(codec: Codec) {
  const writer = createPackWriter({ schema: exampleSchema, ...ids, sequence: 7n, codec });
  const parts = [
    writer.header,
    await writer.encodeBlock(records.slice(0, 3)),
    await writer.encodeBlock(records.slice(3)),
  ];
  const unsealed = Buffer.concat(parts);
  const projected = writer.projectedSize();
  const tail = await writer.finish();
  return { unsealed, tail, projected, sealed: Buffer.concat([unsealed, tail.bytes]) };
}

describe.each(["none", "gzip"] as const)("a pack with codec %s", (codec) => {
  it("gives back records and payloads by index", async () => {
    const { sealed, tail, projected } = await samplePack(codec);
    expect(projected).toBe(sealed.length);
    expect(tail.packSize).toBe(sealed.length);
    expect(tail.packSha256).toBe(createHash("sha256").update(sealed).digest("hex"));
    const index = await readPackIndex(memorySource(sealed));
    expect(index.schema).toEqual(exampleSchema);
    expect(index.header).toMatchObject({ ...ids, sequence: 7n, version: 0, alignment: 64, retainUntilMs: null });
    for (const [at, record] of index.records.entries()) {
      const { locator, ...metadata } = record;
      const range = payloadRange(locator);
      const payload = await decodePayload(locator, sealed.subarray(range.offset, range.offset + range.length));
      expect({ ...metadata, payload }).toEqual(records[at]);
      if (locator.codec === "none") expect(locator.payloadOffset % 64).toBe(0);
    }
    expect(index.records).toHaveLength(records.length);
  });

  it("gives back records from the front", async () => {
    const { sealed } = await samplePack(codec);
    const found = [];
    for await (const record of readRecords(memorySource(sealed))) found.push(record);
    expect(found).toEqual(records);
  });

  it("SP-04 salvaged before or after its seal it gets the same tail", async () => {
    const { sealed, unsealed, tail } = await samplePack(codec);
    for (const bytes of [unsealed, sealed, sealed.subarray(0, sealed.length - 70)]) {
      const { writer, goodBytes, problem } = await resumePack(memorySource(bytes));
      expect(problem).toBeNull();
      expect(goodBytes).toBe(unsealed.length);
      expect(await writer.finish()).toEqual(tail);
    }
  });
});
