import { PackError } from "./errors.js";
import { PackScan } from "./scan.js";
import type { ByteSource } from "./source.js";
import { Writer, type PackWriter } from "./writer.js";

/** What {@link resumePack} found. */
export type ResumedPack = {
  /** Stands after the last good block. */
  readonly writer: PackWriter;
  /** Bytes up to there: cut the file here before anything is appended. */
  readonly goodBytes: number;
  /** Why the reading ended, or null when it ended at the end of the source or at an index. */
  readonly problem: PackError | null;
};

/**
 * Salvages a pack that was not sealed, or was while nobody can say whether all of it reached the disk: reads header and
 * blocks up to the first bad one. `writer.finish()` then gives the very tail that a writer of the same blocks gives, so
 * that sealing twice gives the same object. An index and trailer that are there already do not count as good bytes.
 *
 * Rejects with a PackError when header or schema block cannot be read (then no record can), and with UNSUPPORTED_CODEC
 * at a codec that file version 0 does not name; with what the source rejects with, as it is. Payloads are not
 * decompressed and the rules of the schema not checked again: a block whose checksum is right is kept as it is.
 */
export async function resumePack(source: ByteSource): Promise<ResumedPack> {
  const scan = await PackScan.open(source, "trust");
  let problem: PackError | null = null;
  let codec: "none" | "gzip" = "none";
  try {
    for (let block = await scan.next(); block !== null; block = await scan.next()) {
      if (block.header.codec === "gzip") codec = "gzip";
    }
  } catch (error) {
    // A codec that is not known is no damage: cutting there would lose what a newer release was told is safe.
    if (!(error instanceof PackError) || error.code === "UNSUPPORTED_CODEC") throw error;
    problem = error;
  }
  return { writer: new Writer(scan.state, codec), goodBytes: scan.state.size, problem };
}
