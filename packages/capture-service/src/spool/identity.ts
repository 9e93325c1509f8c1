import { join } from "node:path";
import { CaptureError, codeOf } from "../errors.js";
import { readUpTo, writeAll, type SpoolFiles } from "./files.js";

/**
 * Who writes into this directory: `writerId` names its folder in the bucket, `nextSequence` is above every number that has
 * left the directory. The numbers of files that are still in it are in their names, so this file changes only before a
 * file with a number at or above `nextSequence` is removed.
 */
export type Identity = { readonly catalog: string; readonly writerId: string; readonly nextSequence: bigint };

export const identityFile = "holdfast-spool.json";
const newFile = `${identityFile}.new`;

/** Reads the identity; null when there is none. A file that makes no sense gives "damaged". SPOOL_UNSUITABLE: of another catalog. */
export async function readIdentity(
  files: SpoolFiles,
  directory: string,
  catalog: string,
): Promise<Identity | "damaged" | null> {
  let bytes: Uint8Array;
  try {
    const file = await files.open(join(directory, identityFile), "read");
    try {
      bytes = await readUpTo(file, 0, 4096);
    } finally {
      await file.close();
    }
  } catch (error) {
    if (codeOf(error) === "ENOENT") return null;
    throw error;
  }
  const identity = parse(new TextDecoder().decode(bytes));
  if (identity === null) return "damaged";
  if (identity.catalog !== catalog) {
    throw new CaptureError(
      "SPOOL_UNSUITABLE",
      `spool.directory ${directory} belongs to catalog "${identity.catalog}", this service writes "${catalog}". ` +
        `One spool directory serves one catalog: name another directory.`,
    );
  }
  return identity;
}

/** Replaces the identity in one step and makes that durable before it returns. */
export async function writeIdentity(files: SpoolFiles, directory: string, identity: Identity): Promise<void> {
  const text = JSON.stringify({
    format: "holdfast-spool",
    version: 1,
    catalog: identity.catalog,
    writerId: identity.writerId,
    nextSequence: identity.nextSequence.toString(),
  });
  await removeIfThere(files, join(directory, newFile));
  const file = await files.open(join(directory, newFile), "create");
  try {
    await writeAll(file, new TextEncoder().encode(`${text}\n`), 0);
    await file.datasync();
  } finally {
    await file.close();
  }
  await files.rename(join(directory, newFile), join(directory, identityFile));
  await files.syncDirectory(directory);
}

export async function removeIfThere(files: SpoolFiles, path: string): Promise<void> {
  try {
    await files.unlink(path);
  } catch (error) {
    if (codeOf(error) !== "ENOENT") throw error;
  }
}

function parse(text: string): Identity | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  if (typeof value !== "object" || value === null) return null;
  const { format, version, catalog, writerId, nextSequence } = value as Record<string, unknown>;
  if (format !== "holdfast-spool" || version !== 1 || typeof catalog !== "string") return null;
  if (typeof writerId !== "string" || !/^[0-9a-f-]{36}$/.test(writerId)) return null;
  if (typeof nextSequence !== "string" || !/^\d{1,16}$/.test(nextSequence)) return null;
  return { catalog, writerId, nextSequence: BigInt(nextSequence) };
}
