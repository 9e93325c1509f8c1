// Goal: `inspect` shows what a pack holds and calls it verified only when it is whole; of one that is not it says what is
// left. Method: packs written here, then cut, bent or relabelled byte by byte, as files and as objects of a store.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createPackWriter, defineCaptureSchema } from "@holdfast/pack-format";
import { describe, expect, it } from "vitest";
import { run, tempDir } from "./helpers.js";

const schema = defineCaptureSchema({
  name: "things",
  version: 3,
  fields: { model: "LowCardinality(String)", step: "UInt64" },
  orderBy: ["model", "step"],
});
const packId = "0190a5b4-7c11-7d3e-8f21-5b6a7c8d9e0f";

async function aPack(blocks = 3, perBlock = 4, codec: "none" | "gzip" = "none"): Promise<Uint8Array> {
  const writer = createPackWriter({
    schema,
    packId,
    writerId: "6f1c0d2e-3a4b-4c5d-8e6f-708192a3b4c5",
    sequence: 7n,
    codec,
  });
  const parts = [writer.header];
  for (let block = 0; block < blocks; block += 1) {
    const records = Array.from({ length: perBlock }, (_, k) => {
      const i = block * perBlock + k;
      return {
        captureId: i === 4 ? "id-4 \u001b[31m" : `id-${i.toString()}`,
        capturedAtNs: 1_796_028_092_000_000_000n + BigInt(i),
        scope: { tenant: "t", session: "monday" },
        fields: { model: i === 0 ? "a\u001b[31m" : "tiny", step: BigInt(i) },
        payload: new Uint8Array(1000).fill(i),
      };
    });
    parts.push(await writer.encodeBlock(records));
  }
  parts.push((await writer.finish()).bytes);
  return Buffer.concat(parts);
}

function fileOf(bytes: Uint8Array): string {
  const file = join(tempDir(), "some.hfpack");
  writeFileSync(file, bytes);
  return file;
}

describe("inspect", () => {
  it.each(["none", "gzip"] as const)("a whole pack, codec %s: header, blocks, records, verified", async (codec) => {
    const ran = await run(["inspect", fileOf(await aPack(3, 4, codec))]);
    expect(ran).toMatchObject({ code: 0, err: "" });
    expect(ran.out).toContain("things, version 3, 2 fields");
    expect(ran.out).toMatch(new RegExp(`pack id +${packId}\n`));
    expect(ran.out).toContain("pack number 7");
    expect(ran.out).toMatch(/records +12\n/);
    expect(ran.out.match(new RegExp(` ${codec} +4 +4.00 kB`, "g"))).toHaveLength(3);
    expect(ran.out).toMatch(/\n +#[^\n]*\n +1 /); // the numbers of the file and of error messages: block 0 is the schema
    expect(ran.out).toContain("2026-11-30 08:41:32.000");
    expect(ran.out).toContain("... and 7 more records");
    expect(ran.out).toMatch(/\nverified 12 of 12 records, header, index and trailer\n$/);
    expect(ran.out).not.toContain("\u001b"); // a stored string must not reach the terminal as it is
  });

  // Red without throwIfAborted() in the reads: the pack is read to its end.
  it("ends by Ctrl-C while it reads a file, with exit code 130 and nothing printed", async () => {
    const ran = await run(["inspect", fileOf(await aPack())], { signal: AbortSignal.abort() });
    expect(ran).toEqual({ code: 130, out: "", err: "" });
  });

  it("--records lists as many as asked for, --json is one line", async () => {
    const file = fileOf(await aPack());
    expect((await run(["inspect", file, "--records", "0"])).out).not.toContain("id-0");
    const all = (await run(["inspect", file, "--records", "99"])).out;
    for (let i = 0; i < 12; i += 1) expect(all).toContain(`id-${i.toString()} `);
    const line = (await run(["inspect", file, "--json"])).out;
    expect(line.split("\n")).toHaveLength(2);
    expect(JSON.parse(line)).toMatchObject({
      packId,
      sequence: "7",
      records: 12,
      verified: 12,
      payloadBytes: 12_000,
      blocks: 3,
      schema: { name: "things", version: 3 },
      sha256: expect.stringMatching(/^[0-9a-f]{64}$/) as string,
    });
  });

  it("a pack cut anywhere: exit 1, PACK_TRUNCATED, and what is left of it", async () => {
    const pack = await aPack();
    for (let length = 0; length < pack.length; length += 977) {
      const ran = await run(["inspect", fileOf(pack.subarray(0, length))]);
      expect(ran.code).toBe(1);
      expect(ran.err, `cut to ${length.toString()}`).toMatch(/^error: \[PACK_TRUNCATED\] [^\n]+\n$/);
      expect(ran.out).not.toContain("verified");
    }
    const noTrailer = await run(["inspect", fileOf(pack.subarray(0, pack.length - 64))]);
    expect(noTrailer.out).toMatch(/intact +12 records in the first [\d,]+ of [\d,]+ bytes\n/);
    const firstBlockOnly = await run(["inspect", fileOf(pack.subarray(0, 6000))]);
    expect(firstBlockOnly.out).toMatch(/intact +4 records in the first [\d,]+ of 6,000 bytes\n/);
  });

  it("one changed byte anywhere: exit 1, and never verified", async () => {
    const pack = await aPack();
    for (let at = 0; at < pack.length; at += 331) {
      const bent = Uint8Array.from(pack);
      bent[at] = (bent[at] ?? 0) ^ 0x40;
      const ran = await run(["inspect", fileOf(bent)]);
      expect(ran.code, `byte ${at.toString()}`).toBe(1);
      expect(ran.err).toMatch(
        /^error: \[(PACK_CORRUPT|PACK_TRUNCATED|PACK_VERSION_UNSUPPORTED|SCHEMA_INVALID)\] [^\n]+\n$/,
      );
      expect(ran.out).not.toContain("verified");
    }
  });

  it("a newer file version: exit 1, the version and what to do", async () => {
    const pack = await aPack();
    const newer = Uint8Array.from(pack);
    newer[4] = 9;
    const ran = await run(["inspect", fileOf(newer)]);
    expect(ran).toMatchObject({ code: 1, out: "" });
    expect(ran.err).toMatch(/^error: \[PACK_VERSION_UNSUPPORTED\] [^\n]*version 9[^\n]*\n$/);
  });

  // The size stood in the facts as the file claimed it: more than there is.
  it("a file that claims to be of a store, with a size that it has not: shown with its own size", async () => {
    const end = Buffer.alloc(32);
    end.writeBigUInt64LE(2n ** 40n, 0);
    end.write("holdfast-object1", 16, "latin1");
    const bytes = Buffer.concat([await aPack(), end]);
    const ran = await run(["inspect", fileOf(bytes)]);
    expect(ran).toMatchObject({ code: 1 });
    expect(ran.out).not.toContain("TB");
    expect(ran.out).toContain(`of ${bytes.length.toString().replace(/(\d)(?=(\d{3})+$)/g, "$1,")} bytes`);
  });

  it("something that is no pack: exit 1", async () => {
    const ran = await run(["inspect", fileOf(Buffer.from("#!/bin/sh\n".repeat(100)))]);
    expect(ran).toMatchObject({ code: 1, out: "" });
    expect(ran.err).toMatch(/^error: \[PACK_CORRUPT\] not a pack[^\n]+\n$/);
  });
});
