// Goal: SP-02. Method: packs of several blocks, cut and flipped at every block border and at 1000 random places each, then
// read from the front, by index and by salvage, through a source that refuses any read beyond its end. Which records are
// "earlier" is known from where the writer said its blocks end. (With the body checksum not compared in scan.ts the flips
// turn red; with the length not compared to the source, the cuts.)
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { PackError, readPackIndex, resumePack } from "@holdfast/pack-format";
import { asPackError, drain, exampleRecord, expectRecords, memorySource, packOf, type SamplePack } from "../support.js";

const groups = [
  [exampleRecord(1), exampleRecord(2), exampleRecord(0)],
  [exampleRecord(12)],
  [exampleRecord(4, new Uint8Array()), exampleRecord(5)],
  [exampleRecord(9), exampleRecord(7)],
];

const codes = ["PACK_TRUNCATED", "PACK_CORRUPT", "PACK_VERSION_UNSUPPORTED"];

type Damage = { readonly how: "cut" | "flip"; readonly at: number; readonly bytes: Buffer };

function cut(pack: SamplePack, at: number): Damage {
  return { how: "cut", at, bytes: pack.bytes.subarray(0, at) };
}

function flip(pack: SamplePack, at: number, bit: number): Damage {
  const bytes = Buffer.from(pack.bytes);
  bytes.writeUInt8((bytes[at] ?? 0) ^ (1 << bit), at);
  return { how: "flip", at, bytes };
}

const seals = new Map<string, Promise<SamplePack>>();

/** The bytes of a pack that was written and sealed with the first so many groups and nothing else. */
async function cleanSeal({ options }: SamplePack, blocks: number): Promise<Buffer> {
  const key = `${options.codec ?? "none"} ${blocks}`;
  const known = seals.get(key) ?? packOf(groups.slice(0, blocks), options);
  seals.set(key, known);
  return (await known).bytes;
}

async function expectEarlierRecords(pack: SamplePack, { at, bytes }: Damage): Promise<void> {
  const good = at < pack.openingBytes ? [] : pack.blocks.filter((block) => block.end <= at);
  const { records, error } = await drain(memorySource(bytes));
  expectRecords(
    records,
    good.flatMap((block) => block.records),
  );
  expect(error).toBeInstanceOf(PackError);
  expect(codes).toContain((error as PackError).code);
}

async function expectSalvage(pack: SamplePack, { how, at, bytes }: Damage): Promise<void> {
  if (at < pack.openingBytes) {
    const error = await resumePack(memorySource(bytes)).then(
      () => null,
      (error: unknown) => error,
    );
    expect(codes).toContain(asPackError(error, (error as PackError).code).code);
    return;
  }
  const good = pack.blocks.filter((block) => block.end <= at);
  const end = good.at(-1)?.end ?? pack.openingBytes;
  const { writer, goodBytes, problem } = await resumePack(memorySource(bytes));
  expect(goodBytes).toBe(end);
  // An index is known by its first four bytes: from there on a bad tail is a torn seal and no bad block.
  expect(problem === null).toBe(at >= pack.unsealedBytes + 4 || (how === "cut" && at === end));
  const sealed = Buffer.concat([bytes.subarray(0, goodBytes), (await writer.finish()).bytes]);
  expect(Buffer.compare(sealed, await cleanSeal(pack, good.length))).toBe(0);
}

async function expectIndex({ bytes }: Damage, mustFail: boolean): Promise<void> {
  const error = await readPackIndex(memorySource(bytes)).then(
    () => null,
    (error: unknown) => error,
  );
  if (error === null) expect(mustFail).toBe(false);
  else expect(codes).toContain(asPackError(error, (error as PackError).code).code);
}

describe.each(["none", "gzip"] as const)("SP-02 a damaged pack of codec %s", (codec) => {
  const packed = packOf(groups, { codec });
  const borders = async (): Promise<number[]> => {
    const { blocks, openingBytes, unsealedBytes, bytes } = await packed;
    const ends = [
      0,
      64,
      openingBytes,
      ...blocks.map((block) => block.end),
      unsealedBytes,
      bytes.length - 64,
      bytes.length,
    ];
    const near = ends.flatMap((end) => [-65, -64, -1, 0, 1, 4, 63, 64, 65].map((by) => end + by));
    return [...new Set(near)].filter((at) => at >= 0 && at < bytes.length);
  };

  it("SP-02 cut at and around every block border gives all earlier records, then a coded error", async () => {
    const pack = await packed;
    for (const at of await borders()) {
      await expectEarlierRecords(pack, cut(pack, at));
      await expectSalvage(pack, cut(pack, at));
      await expectIndex(cut(pack, at), true);
    }
  });

  it("SP-02 flipped at and around every block border gives all earlier records, then a coded error", async () => {
    const pack = await packed;
    for (const at of await borders()) {
      await expectEarlierRecords(pack, flip(pack, at, at % 8));
      await expectSalvage(pack, flip(pack, at, at % 8));
      await expectIndex(flip(pack, at, at % 8), at >= pack.unsealedBytes);
    }
  });

  it("SP-02 cut or flipped at 1000 random offsets gives all earlier records, then a coded error", async () => {
    const pack = await packed;
    const place = fc.record({
      at: fc.nat({ max: pack.bytes.length - 1 }),
      bit: fc.nat({ max: 7 }),
      whether: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(place, async ({ at, bit, whether }) => {
        const damage = whether ? cut(pack, at) : flip(pack, at, bit);
        await expectEarlierRecords(pack, damage);
        await expectSalvage(pack, damage);
        await expectIndex(damage, whether || at >= pack.unsealedBytes);
      }),
      { numRuns: 1000 },
    );
  }, 60_000);

  it("SP-02 followed by zeros, as a file is that grew before its bytes came, is cut at its last block", async () => {
    const pack = await packed;
    for (const { end } of pack.blocks) {
      const bytes = Buffer.concat([pack.bytes.subarray(0, end), Buffer.alloc(5000)]);
      const { goodBytes, problem } = await resumePack(memorySource(bytes));
      expect(goodBytes).toBe(end);
      asPackError(problem, "PACK_CORRUPT", "no block begins here");
    }
  });
});

describe("SP-02 arbitrary bytes", () => {
  it("SP-02 are refused with a code by every reader", async () => {
    const pack = await packOf(groups);
    const noise = fc.uint8Array({ maxLength: 400 });
    // Behind a good opening, so that the noise is read as blocks; before a good tail, so that it is read as an index.
    const opening = pack.bytes.subarray(0, pack.openingBytes);
    const trailer = pack.bytes.subarray(-64);
    await fc.assert(
      fc.asyncProperty(
        noise,
        fc.constantFrom("bare" as const, "opened" as const, "closed" as const),
        async (bytes, where) => {
          const parts = { bare: [bytes], opened: [opening, bytes], closed: [opening, bytes, trailer] }[where];
          const source = memorySource(Buffer.concat(parts));
          const { error, records } = await drain(source);
          expect(records).toEqual([]);
          expect(codes).toContain((error as PackError).code);
          await expectIndex({ how: "cut", at: 0, bytes: Buffer.concat(parts) }, true);
        },
      ),
      { numRuns: 300 },
    );
  }, 60_000);
});
