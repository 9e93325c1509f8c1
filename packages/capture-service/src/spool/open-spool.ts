import { dirname, resolve } from "node:path";
import type { Clock } from "@holdfast/deadline-http";
import type { ErrorLog } from "../error-log.js";
import { CaptureError, codeOf, describe } from "../errors.js";
import type { SpoolFiles } from "./files.js";
import { identityFile, readIdentity, writeIdentity, type Identity } from "./identity.js";
import { quarantineSuffix } from "./names.js";
import { takeOwnership } from "./owner.js";
import { Spool, type SpoolSettings } from "./spool.js";
import { checkSuitable } from "./suitability.js";
import { sweep } from "./sweep.js";

/**
 * Makes the directory where needed, takes it, and salvages what an owner that is gone left in it.
 * SPOOL_UNWRITABLE, SPOOL_UNSUITABLE, SPOOL_IN_USE. Nothing is held and no file is changed when it throws before the sweep.
 */
export async function openSpool(o: {
  readonly settings: SpoolSettings;
  readonly allowSharedFileSystem: boolean;
  readonly files: SpoolFiles;
  readonly clock: Clock;
  readonly random: () => number;
  readonly newId: () => string;
  readonly errors: ErrorLog;
  readonly signal?: AbortSignal;
  /** @internal tests without a real directory put another one here. */
  readonly own?: typeof takeOwnership;
}): Promise<Spool> {
  const { files, clock, newId } = o;
  const directory = resolve(o.settings.directory);
  const settings = { ...o.settings, directory };
  const catalog = settings.schema.name;
  return unwritable(directory, async () => {
    await files.makeDirectory(directory);
    await checkSuitable(files, directory, o);
    const ownership = await (o.own ?? takeOwnership)(directory, o);
    try {
      await syncUpwards(files, directory);
      const { identity, note } = await ownIdentity(files, directory, catalog, newId);
      const swept = await sweep(files, directory, identity.writerId, identity.nextSequence);
      const noted = note === null ? swept : { ...swept, notes: [...swept.notes, note] };
      return new Spool({ settings, files, clock, newId, ownership, identity, swept: noted, errors: o.errors });
    } catch (error) {
      await ownership.release();
      throw error;
    }
  });
}

/**
 * Makes the path to the directory durable, up to the root. An earlier process may have made the directories and been killed
 * before it came to this, so it is done at every start. What we may not open we did not make either.
 */
async function syncUpwards(files: SpoolFiles, directory: string): Promise<void> {
  await files.syncDirectory(directory);
  for (let at = dirname(directory); ; at = dirname(at)) {
    try {
      await files.syncDirectory(at);
    } catch (error) {
      if (!["EACCES", "EPERM", "EINVAL", "EROFS", "ENOENT"].includes(codeOf(error) ?? "")) throw error;
    }
    if (dirname(at) === at) return;
  }
}

/**
 * The identity of the directory, a new one where there is none. One that cannot be read is set aside: with a new writer id
 * no number is ever given out twice, and the packs that are there carry their old id in their names.
 */
async function ownIdentity(
  files: SpoolFiles,
  directory: string,
  catalog: string,
  newId: () => string,
): Promise<{ identity: Identity; note: string | null }> {
  const found = await readIdentity(files, directory, catalog);
  if (found !== null && found !== "damaged") return { identity: found, note: null };
  const damaged = found === "damaged";
  if (damaged) await files.rename(`${directory}/${identityFile}`, `${directory}/${identityFile}${quarantineSuffix}`);
  const identity = { catalog, writerId: newId(), nextSequence: 0n };
  await writeIdentity(files, directory, identity);
  return { identity, note: damaged ? `${identityFile} could not be read: the directory has a new writer id` : null };
}

const refusals = [
  "EACCES",
  "EPERM",
  "EROFS",
  "ENOSPC",
  "EDQUOT",
  "ENOTDIR",
  "EEXIST",
  "EIO",
  "ENAMETOOLONG",
  "ELOOP",
  "ENOENT",
];

async function unwritable<T>(directory: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const code = codeOf(error) ?? "";
    if (!refusals.includes(code)) throw error;
    throw new CaptureError(
      "SPOOL_UNWRITABLE",
      `spool.directory ${directory} cannot be used (${code}: ${describe(error, 200)}). Name a directory on a local disk that ` +
        `this process may create and write.`,
      { cause: error },
    );
  }
}
