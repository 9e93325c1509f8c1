import { join } from "node:path";
import { resumePack, type ByteSource, type PackWriter } from "@holdfast/pack-format";
import { codeOf, describe } from "../errors.js";
import { readUpTo, writeAll, type SpoolFile, type SpoolFiles } from "./files.js";
import { removeIfThere } from "./identity.js";
import { publishName, sealedName, type SealedPack } from "./pack-file.js";
import { formatName, type PackName } from "./names.js";

const pieceBytes = 1024 * 1024;

/**
 * What became of a file. `note` says what was lost, for the status; with it the old file is still there, for a person to look
 * at. `pack` is null when no block of it could be read.
 */
export type Salvaged = { readonly pack: SealedPack | null; readonly note: string | null };

/** A file as the pack reader wants it, cut off after `size` bytes. */
export function sourceOf(file: SpoolFile, size: number): ByteSource {
  return {
    size,
    read: (offset, length) => readUpTo(file, offset, Math.max(0, Math.min(length, size - offset))),
  };
}

type Good = { readonly writer: PackWriter; readonly goodBytes: number; readonly problem: Error | null };

/** The good blocks of a file; null when there is not one. Throws what reading throws: that says nothing about the file. */
async function goodBlocks(source: ByteSource): Promise<Good | { readonly writer: null; readonly problem: Error }> {
  try {
    const resumed = await resumePack(source);
    if (resumed.writer.recordCount > 0) return resumed;
    return { writer: null, problem: resumed.problem ?? new Error("it holds no record") };
  } catch (error) {
    const code = codeOf(error) ?? "";
    const aboutThePack = ["PACK_", "SCHEMA_", "RECORD_", "UNSUPPORTED_"].some((start) => code.startsWith(start));
    if (!aboutThePack || !(error instanceof Error)) throw error;
    return { writer: null, problem: error };
  }
}

/**
 * Seals an `.open` file of an owner that is gone: cuts it after its last good block and does exactly what a seal does.
 * The result follows from the good blocks alone, so cut off at any step and done again it gives the same object.
 *
 * Where a bad block lies inside the file, and not at a torn end, the good blocks are copied instead, so that what is behind
 * the bad one stays.
 */
export async function salvageOpen(files: SpoolFiles, directory: string, id: PackName): Promise<Salvaged> {
  const openName = formatName({ kind: "open", ...id });
  const file = await files.open(join(directory, openName), "update");
  try {
    const size = await file.size();
    const good = await goodBlocks(sourceOf(file, size));
    if (good.writer === null)
      return { pack: null, note: `no block of ${openName} can be read: ${describe(good.problem)}` };
    if (good.problem !== null && codeOf(good.problem) !== "PACK_TRUNCATED") {
      return await copyOut(files, directory, id, { from: openName, goodBytes: size });
    }
    const tail = await good.writer.finish();
    if (size > good.goodBytes) await file.truncate(good.goodBytes);
    await writeAll(file, tail.bytes, good.goodBytes);
    await file.datasync();
    const name = sealedName(id, tail.recordCount, tail.packSha256);
    await publishName(files, directory, openName, name);
    const pack = { ...id, name, bytes: tail.packSize, records: tail.recordCount, sha256: tail.packSha256 };
    return { pack, note: null };
  } finally {
    await file.close();
  }
}

/**
 * Seals the first `goodBytes` of a file under its own id in a new file, and leaves the old one where it is. For files that
 * a failed write ended: theirs may not be appended to.
 */
export async function copyOut(
  files: SpoolFiles,
  directory: string,
  id: PackName,
  o: { readonly from: string; readonly goodBytes: number },
): Promise<Salvaged> {
  const source = await files.open(join(directory, o.from), "read");
  try {
    const good = await goodBlocks(sourceOf(source, o.goodBytes));
    if (good.writer === null)
      return { pack: null, note: `no block of ${o.from} can be read: ${describe(good.problem)}` };
    const pack = await writeCopy(files, directory, id, { source, writer: good.writer, bytes: good.goodBytes });
    const lost = o.goodBytes - good.goodBytes;
    const note = `${o.from}: kept ${good.goodBytes} of ${o.goodBytes} bytes: ${describe(good.problem ?? "the rest is not a block")}`;
    return { pack, note: lost === 0 ? null : note };
  } finally {
    await source.close();
  }
}

async function writeCopy(
  files: SpoolFiles,
  directory: string,
  id: PackName,
  o: { readonly source: SpoolFile; readonly writer: PackWriter; readonly bytes: number },
): Promise<SealedPack> {
  const copyName = formatName({ kind: "copy", ...id });
  await removeIfThere(files, join(directory, copyName));
  const copy = await files.open(join(directory, copyName), "create");
  const tail = await o.writer.finish();
  try {
    for (let at = 0; at < o.bytes; at += pieceBytes) {
      await writeAll(copy, await readUpTo(o.source, at, Math.min(pieceBytes, o.bytes - at)), at);
    }
    await writeAll(copy, tail.bytes, o.bytes);
    await copy.datasync();
  } finally {
    await copy.close();
  }
  const name = sealedName(id, tail.recordCount, tail.packSha256);
  await publishName(files, directory, copyName, name);
  return { ...id, name, bytes: tail.packSize, records: tail.recordCount, sha256: tail.packSha256 };
}
