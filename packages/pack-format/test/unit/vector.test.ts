// Goal: the bytes of file version 0 are what docs/pack-format.md says, today and in later releases. Method: two packs that
// are written down in hex; the writer must give the one without compression to the byte (a compressor may differ from
// Node to Node, so the other is only read), and every reader must find in both what vector.ts says.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import {
  createPackWriter,
  decodePayload,
  payloadRange,
  readPackHeader,
  readPackIndex,
  resumePack,
} from "@holdfast/pack-format";
import { drain, expectRecords, memorySource } from "../support.js";
import { vectorOptions, vectorRecords } from "../fixtures/vector.js";

/** The bytes of a fixture; each line's offset must be where its bytes lie. */
function vector(name: string): { bytes: Buffer; sha256: string } {
  const text = readFileSync(new URL(`../fixtures/${name}`, import.meta.url), "utf8");
  const parts: Buffer[] = [];
  let length = 0;
  for (const line of text.split("\n")) {
    const [, offset, hex] = /^([0-9a-f]{4}) {2}((?:[0-9a-f]{2} ?)+)/.exec(line) ?? [];
    if (offset === undefined || hex === undefined) continue;
    expect(Number.parseInt(offset, 16)).toBe(length);
    const part = Buffer.from(hex.replaceAll(" ", ""), "hex");
    parts.push(part);
    length += part.length;
  }
  return { bytes: Buffer.concat(parts), sha256: /[0-9a-f]{64}/.exec(text)?.[0] ?? "" };
}

describe.each(["none", "gzip"] as const)("the pack that is written down for codec %s", (codec) => {
  const { bytes, sha256 } = vector(`pack-v0.${codec}.hex`);
  const { schema, retainUntilMs, ...header } = vectorOptions;

  it("is whole", () => {
    expect(createHash("sha256").update(bytes).digest("hex")).toBe(sha256);
    expect(readPackHeader(bytes)).toMatchObject({ ...header, retainUntilMs, version: 0, flags: 0 });
  });

  it("gives its records by index", async () => {
    const index = await readPackIndex(memorySource(bytes));
    expect(index.schema).toEqual(schema);
    const found = [];
    for (const { locator, ...record } of index.records) {
      const { offset, length } = payloadRange(locator);
      found.push({ ...record, payload: await decodePayload(locator, bytes.subarray(offset, offset + length)) });
    }
    expectRecords(found, vectorRecords.flat());
    expect(index.records.map((record) => record.locator.codec)).toEqual([codec, codec, "none"]);
  });

  it("gives its records from the front", async () => {
    const { records, error } = await drain(memorySource(bytes));
    expect(error).toBeNull();
    expectRecords(records, vectorRecords.flat());
  });

  it("SP-04 seals to the same bytes after salvage", async () => {
    const { writer, goodBytes, problem } = await resumePack(memorySource(bytes));
    expect(problem).toBeNull();
    const tail = await writer.finish();
    expect(tail.packSha256).toBe(sha256);
    expect(Buffer.compare(Buffer.concat([bytes.subarray(0, goodBytes), tail.bytes]), bytes)).toBe(0);
  });
});

describe("the writer", () => {
  it("gives the pack that is written down, to the byte", async () => {
    const writer = createPackWriter(vectorOptions);
    const parts = [writer.header];
    for (const records of vectorRecords) parts.push(await writer.encodeBlock(records));
    parts.push((await writer.finish()).bytes);
    expect(Buffer.concat(parts).toString("hex")).toBe(vector("pack-v0.none.hex").bytes.toString("hex"));
  });
});
