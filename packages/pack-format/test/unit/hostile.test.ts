// Goal: a file that was made to hurt is refused with a code: lengths, counts and offsets that lie under checksums that are
// right. Method: a good pack, one value changed, the checksums around it made right again, through every way of reading.
import { crc32, gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import {
  decodePayload,
  limits,
  payloadRange,
  readPackHeader,
  readPackIndex,
  resumePack,
  type PackErrorCode,
  type RecordLocator,
} from "@holdfast/pack-format";
import {
  asPackError,
  drain,
  exampleRecord,
  expectPackError,
  memorySource,
  packOf,
  type SamplePack,
} from "../support.js";

const groups = [[exampleRecord(1), exampleRecord(2)], [exampleRecord(3)]];

/** Makes the checksum of a 64-byte frame right. */
function closeFrame(bytes: Buffer, at: number): void {
  bytes.writeUInt32LE(crc32(bytes.subarray(at, at + 60)), at + 60);
}

/** Makes the checksums of a block right: of its body, then of its header. */
function closeBlock(bytes: Buffer, start: number, end: number): void {
  bytes.writeUInt32LE(crc32(bytes.subarray(start + 64, end)), start + 48);
  closeFrame(bytes, start);
}

/** Makes the checksums of index and trailer right. */
function closeTail(bytes: Buffer): void {
  const trailer = bytes.length - 64;
  const start = Number(bytes.readBigUInt64LE(trailer + 8));
  bytes.writeUInt32LE(crc32(bytes.subarray(start, trailer)), trailer + 24);
  closeFrame(bytes, trailer);
}

type Change = (bytes: Buffer, at: number) => void;
const u32 =
  (offset: number, value: number): Change =>
  (bytes, at) =>
    void bytes.writeUInt32LE(value, at + offset);
const u8 =
  (offset: number, value: number): Change =>
  (bytes, at) =>
    void bytes.writeUInt8(value, at + offset);

const blockLies: readonly [string, Change, PackErrorCode][] = [
  ["another number", u32(4, 9), "PACK_CORRUPT"],
  ["another pack", u8(8, 0xff), "PACK_CORRUPT"],
  ["to be a schema", u8(24, 0), "PACK_CORRUPT"],
  ["an unknown kind", u8(24, 2), "PACK_CORRUPT"],
  ["an unknown codec", u8(25, 77), "UNSUPPORTED_CODEC"],
  ["to have no records", u32(28, 0), "PACK_CORRUPT"],
  ["a record less", u32(28, 1), "PACK_CORRUPT"],
  ["a record more", u32(28, 3), "PACK_CORRUPT"],
  ["more records than may be", u32(28, limits.blockRecords + 1), "PACK_CORRUPT"],
  ["to have 2^32-1 records", u32(28, 0xffff_ffff), "PACK_CORRUPT"],
  ["more metadata than may be", u32(32, limits.metadataBytes + 1), "PACK_CORRUPT"],
  ["2^32-1 bytes of metadata", u32(32, 0xffff_ffff), "PACK_CORRUPT"],
  [
    "a byte less of metadata",
    (bytes, at) => bytes.writeUInt32LE(bytes.readUInt32LE(at + 32) - 1, at + 32),
    "PACK_CORRUPT",
  ],
  ["2^32-1 stored bytes", u32(36, 0xffff_ffff), "PACK_CORRUPT"],
  ["2^32-1 bytes of payloads", u32(40, 0xffff_ffff), "PACK_CORRUPT"],
  ["a byte more of payloads", u32(40, 301), "PACK_CORRUPT"],
  ["a length of 0", u32(44, 0), "PACK_CORRUPT"],
  ["a length of 2^32-1", u32(44, 0xffff_ffff), "PACK_CORRUPT"],
  [
    "to be a whole block longer than the file",
    (bytes, at) => {
      bytes.writeUInt32LE(1, at + 28);
      bytes.writeUInt32LE(200_000_000, at + 40);
      bytes.writeUInt32LE(200_000_000, at + 36);
      const start = Math.ceil((64 + bytes.readUInt32LE(at + 32)) / 64) * 64;
      bytes.writeUInt32LE(Math.ceil((start + 200_000_000) / 64) * 64, at + 44);
    },
    "PACK_TRUNCATED",
  ],
];

describe("a block header that says", () => {
  const changed = async (change: Change): Promise<{ pack: SamplePack; bytes: Buffer; start: number }> => {
    const pack = await packOf(groups);
    const bytes = Buffer.from(pack.bytes);
    const { start, end } = pack.blocks[0] ?? { start: 0, end: 0 };
    change(bytes, start);
    closeBlock(bytes, start, end);
    return { pack, bytes, start };
  };

  it.each(blockLies)("%s is refused from the front, and salvage cuts before it", async (_, change, code) => {
    const { bytes, start } = await changed(change);
    const found = await drain(memorySource(bytes));
    expect(found.records).toEqual([]);
    asPackError(found.error, code);
    if (code === "UNSUPPORTED_CODEC") {
      await expectPackError(resumePack(memorySource(bytes)), code, "codec number 77");
      return;
    }
    const { goodBytes, problem } = await resumePack(memorySource(bytes));
    expect(goodBytes).toBe(start);
    expect(problem?.code).toBe(code);
  });

  it.each(blockLies.filter(([name]) => !name.includes("longer than the file")))(
    "%s is refused in the index",
    async (_, change, code) => {
      const { bytes } = await packOf(groups);
      const trailer = bytes.length - 64;
      const index = Number(bytes.readBigUInt64LE(trailer + 8));
      const schemaBlock = index + 16 + 64;
      const block = schemaBlock + 64 + bytes.readUInt32LE(schemaBlock + 32);
      change(bytes, block);
      closeFrame(bytes, block);
      closeTail(bytes);
      await expectPackError(readPackIndex(memorySource(bytes)), code);
    },
  );
});

describe("salvage", () => {
  it("keeps a zstd block that its checksum vouches for; reading it names the Node version", async () => {
    const pack = await packOf([[exampleRecord(5, new Uint8Array(5000))]], { codec: "gzip", alignment: 1 });
    const bytes = Buffer.from(pack.bytes.subarray(0, pack.unsealedBytes));
    const { start, end } = pack.blocks[0] ?? { start: 0, end: 0 };
    bytes.writeUInt8(2, start + 25);
    closeBlock(bytes, start, end);
    const { writer, goodBytes, problem } = await resumePack(memorySource(bytes));
    expect({ goodBytes, problem, records: writer.recordCount }).toEqual({ goodBytes: end, problem: null, records: 1 });
    const sealed = Buffer.concat([bytes, (await writer.finish()).bytes]);
    await expectPackError(readPackIndex(memorySource(sealed)), "UNSUPPORTED_CODEC", "zstd", "22.15");
    const { error } = await drain(memorySource(sealed));
    asPackError(error, "UNSUPPORTED_CODEC", "zstd", "22.15");
  });

  it("refuses what is no pack at all", async () => {
    await expectPackError(resumePack(memorySource(new Uint8Array())), "PACK_TRUNCATED");
    await expectPackError(resumePack(memorySource(new Uint8Array(63))), "PACK_TRUNCATED");
    await expectPackError(resumePack(memorySource(new Uint8Array(500))), "PACK_CORRUPT", "not a pack");
  });

  it("passes on what the source rejects with", async () => {
    const { bytes } = await packOf(groups);
    const failure = new Error("disk on fire");
    const source = { size: bytes.length, read: () => Promise.reject(failure) };
    await expect(resumePack(source)).rejects.toBe(failure);
    await expect(readPackIndex(source)).rejects.toBe(failure);
    expect((await drain(source)).error).toBe(failure);
  });

  it("does not believe a source about what it gave", async () => {
    const { bytes } = await packOf(groups);
    const source = { size: bytes.length, read: async (offset: number) => bytes.subarray(offset, offset + 10) };
    await expectPackError(resumePack(source), "PACK_TRUNCATED", "gave 10 of");
    await expectPackError(readPackIndex(source), "PACK_TRUNCATED", "gave 10 of");
    await expectPackError(readPackIndex({ ...source, size: Number.NaN }), "PACK_TRUNCATED", "number NaN");
  });
});

describe("a newer pack", () => {
  it.each([1, 7, 65535])("of file version %i is refused by every reader, naming both versions", async (version) => {
    const { bytes } = await packOf(groups);
    const trailer = bytes.length - 64;
    for (const at of [0, trailer]) {
      bytes.writeUInt16LE(version, at + 4);
      closeFrame(bytes, at);
    }
    const parts = [`file version ${version}`, "version 0"];
    await expectPackError(() => readPackHeader(bytes), "PACK_VERSION_UNSUPPORTED", ...parts);
    await expectPackError(readPackIndex(memorySource(bytes)), "PACK_VERSION_UNSUPPORTED", ...parts);
    await expectPackError(resumePack(memorySource(bytes)), "PACK_VERSION_UNSUPPORTED", ...parts);
    const { error } = await drain(memorySource(bytes));
    asPackError(error, "PACK_VERSION_UNSUPPORTED", ...parts);
  });

  it("with a flag that is not known is refused", async () => {
    const { bytes } = await packOf(groups);
    bytes.writeUInt8(1, 6);
    closeFrame(bytes, 0);
    await expectPackError(() => readPackHeader(bytes), "PACK_VERSION_UNSUPPORTED", "flags 0x1");
  });
});

describe("a header is refused", () => {
  it.each<[string, Change, string]>([
    ["with an alignment of 2^13", u8(7, 13), "alignment 2^13"],
    ["with an alignment of 2^255", u8(7, 255), "alignment 2^255"],
    ["with a sequence of 17 digits", (bytes) => void bytes.writeBigUInt64LE(10n ** 16n, 40), "sequence"],
  ])("%s", async (_, change, part) => {
    const { bytes } = await packOf(groups);
    change(bytes, 0);
    closeFrame(bytes, 0);
    await expectPackError(() => readPackHeader(bytes), "PACK_CORRUPT", part);
  });

  it("of fewer than 64 bytes", async () => {
    await expectPackError(() => readPackHeader(new Uint8Array(63)), "PACK_TRUNCATED", "given 63");
  });
});

describe("a trailer is refused", () => {
  it.each<[string, Change]>([
    ["whose index begins at 2^60", (bytes, at) => void bytes.writeBigUInt64LE(2n ** 60n, at + 8)],
    ["whose index begins at 0", (bytes, at) => void bytes.writeBigUInt64LE(0n, at + 8)],
    ["whose index has 2^32-1 bytes", u32(16, 0xffff_ffff)],
    ["that counts another number of records", u32(20, 2)],
    ["with another checksum of the index", u32(24, 5)],
  ])("%s", async (_, change) => {
    const { bytes } = await packOf(groups);
    change(bytes, bytes.length - 64);
    closeFrame(bytes, bytes.length - 64);
    const source = memorySource(bytes);
    await expectPackError(readPackIndex(source), "PACK_CORRUPT");
    for (const { length } of source.reads) expect(length).toBeLessThan(bytes.length);
  });
});

describe("a pack from the front", () => {
  it("with bytes after its end is refused after its records", async () => {
    const { bytes } = await packOf(groups);
    const { records, error } = await drain(memorySource(Buffer.concat([bytes, Buffer.alloc(1)])));
    expect(records).toEqual(groups.flat());
    asPackError(error, "PACK_CORRUPT", "1 bytes follow");
  });

  it("with an index that speaks of other records is refused after its records", async () => {
    const { bytes, unsealedBytes } = await packOf(groups);
    bytes.writeUInt8((bytes[unsealedBytes + 300] ?? 0) ^ 1, unsealedBytes + 300);
    closeTail(bytes);
    const { records, error } = await drain(memorySource(bytes));
    expect(records).toEqual(groups.flat());
    asPackError(error, "PACK_CORRUPT", "index");
  });
});

describe("an index", () => {
  it("is read with two reads, trailer and index", async () => {
    const { bytes, unsealedBytes } = await packOf(groups);
    const source = memorySource(bytes);
    await readPackIndex(source);
    expect(source.reads).toEqual([
      { offset: bytes.length - 64, length: 64 },
      { offset: unsealedBytes, length: bytes.length - 64 - unsealedBytes },
    ]);
  });

  it("with a capture id that comes twice is refused", async () => {
    const { bytes } = await packOf(groups);
    const ids = [1, 3].map((index) => Buffer.from(exampleRecord(index).captureId.replaceAll("-", ""), "hex"));
    const [one, three] = ids as [Buffer, Buffer];
    one.copy(bytes, bytes.lastIndexOf(three));
    closeTail(bytes);
    await expectPackError(readPackIndex(memorySource(bytes)), "PACK_CORRUPT", "twice", exampleRecord(1).captureId);
  });
});

describe("a payload", () => {
  const locators = async (codec: "none" | "gzip") => {
    const { bytes } = await packOf([[exampleRecord(7), exampleRecord(8)]], { codec });
    const { records } = await readPackIndex(memorySource(bytes));
    const [first] = records;
    if (first === undefined) throw new Error("the pack has records");
    const { offset, length } = payloadRange(first.locator);
    return { locator: first.locator, part: Buffer.from(bytes.subarray(offset, offset + length)) };
  };

  it.each(["none", "gzip"] as const)("of codec %s with a bit flipped anywhere is refused", async (codec) => {
    const { locator, part } = await locators(codec);
    expect(await decodePayload(locator, part)).toEqual(exampleRecord(7).payload);
    for (let at = 0; at < part.length; at += 1) {
      const flipped = Buffer.from(part);
      flipped.writeUInt8((part[at] ?? 0) ^ 4, at);
      const outcome = await decodePayload(locator, flipped).catch((error: unknown) => error);
      expect(outcome, `byte ${at}`).toMatchObject({ code: "PACK_CORRUPT" });
    }
  });

  it.each(["none", "gzip"] as const)("of codec %s in bytes of another length is refused", async (codec) => {
    const { locator, part } = await locators(codec);
    await expectPackError(decodePayload(locator, part.subarray(1)), "PACK_TRUNCATED", `given ${part.length - 1}`);
  });

  it("whose locator names another place in its block is refused", async () => {
    const { locator, part } = await locators("gzip");
    const lies: Partial<RecordLocator>[] = [{ payloadOffset: 1 }, { payloadOffset: 2 ** 40 }, { payloadOffset: -1 }];
    for (const lie of [...lies, { payloadBytes: 1 }, { payloadBytes: 2 ** 31 }]) {
      await expectPackError(decodePayload({ ...locator, ...lie }, part), "PACK_CORRUPT");
    }
    const zstd = { ...locator, codec: "zstd" } as unknown as RecordLocator;
    await expectPackError(decodePayload(zstd, part), "UNSUPPORTED_CODEC", "22.15");
  });

  it("that would decompress to more than its block says is stopped there", async () => {
    const { locator, part } = await locators("gzip");
    const bomb = gzipSync(Buffer.alloc(64 * 1024 * 1024));
    const start = 64 + part.readUInt32LE(32);
    const block = Buffer.concat([part.subarray(0, start), bomb]);
    block.writeUInt32LE(bomb.length, 36);
    block.writeUInt32LE(bomb.length, 40);
    block.writeUInt32LE(1, 28);
    block.writeUInt32LE(block.length, 44);
    closeBlock(block, 0, block.length);
    const lying = { ...locator, blockBytes: block.length };
    const error = await expectPackError(decodePayload(lying, block), "PACK_CORRUPT", "does not decompress");
    expect(error.cause).toMatchObject({ code: "ERR_BUFFER_TOO_LARGE" });
  });

  it("of a compressed block that is given again is not decompressed again", async () => {
    const { bytes } = await packOf([[exampleRecord(7), exampleRecord(8)]], { codec: "gzip" });
    const { records } = await readPackIndex(memorySource(bytes));
    const [a, b] = records.map((record) => record.locator);
    if (a === undefined || b === undefined) throw new Error("the pack has two records");
    const { offset, length } = payloadRange(a);
    const block = bytes.subarray(offset, offset + length);
    const [one, two] = [await decodePayload(a, block), await decodePayload(b, block)];
    expect([one, two]).toEqual([exampleRecord(7).payload, exampleRecord(8).payload]);
    // Views of one piece of memory: there was one decompression.
    expect(two.buffer).toBe(one.buffer);
    expect((await decodePayload(a, Buffer.from(block))).buffer).not.toBe(one.buffer);
  });

  it("that is empty needs no bytes", async () => {
    const { bytes } = await packOf([[exampleRecord(0), exampleRecord(9)]], { codec: "gzip" });
    const [empty] = (await readPackIndex(memorySource(bytes))).records;
    if (empty === undefined) throw new Error("the pack has records");
    expect(payloadRange(empty.locator).length).toBe(0);
    expect(await decodePayload(empty.locator, new Uint8Array())).toHaveLength(0);
  });
});
