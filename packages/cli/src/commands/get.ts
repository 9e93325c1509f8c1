import { lstat, rename, rm, writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { CliError, reasonOf } from "../errors.js";
import { bytes } from "../format.js";
import type { Io } from "../io.js";
import { withReader } from "../open.js";
import type { Peers } from "../peers.js";
import { type ConnectionFlags, readSettings } from "../settings.js";
import { snapshotAt } from "./snapshot.js";

/** Flags of `holdfast get`. */
export interface GetFlags extends ConnectionFlags {
  readonly output: string;
  readonly snapshot?: string;
}

/** `holdfast get CAPTURE_ID -o FILE`: the payload of one record, its checksum verified, into a file. */
export async function get(captureId: string, flags: GetFlags, io: Io, peers: Peers): Promise<void> {
  const settings = await readSettings(flags, io);
  await withReader(settings, io, peers, async ({ reader }) => {
    const snapshot = await snapshotAt(reader, flags.snapshot, io);
    const record = await snapshot.get(captureId, { signal: io.signal });
    if (record === null) {
      throw new CliError("RECORD_NOT_FOUND", `snapshot ${snapshot.version.toString()} has no record ${captureId}`);
    }
    for await (const { payload } of snapshot.read([record], { signal: io.signal })) {
      await writeWhole(resolve(io.cwd, flags.output), payload);
      io.err.write(`${flags.output}: ${bytes(payload.length)}, checksum verified\n`);
    }
  });
}

/**
 * Writes beside the target and renames, so that no reader of it ever sees half a payload. What is there may only be a regular
 * file: a device or a link (/dev/stdout) would be replaced for everybody else.
 * @throws CliError `FILE_UNWRITABLE`.
 */
export async function writeWhole(path: string, payload: Uint8Array): Promise<void> {
  const there = await lstat(path).catch(() => null); // that it is not there is the usual case; other troubles meet the write
  if (there !== null && !there.isFile()) {
    throw new CliError("FILE_UNWRITABLE", `cannot write ${path}: it is there and no regular file; name another`);
  }
  const partial = `${path}.partial-${process.pid.toString()}`;
  try {
    await writeFile(partial, payload, { flag: "wx" });
    await rename(partial, path);
  } catch (error) {
    await rm(partial, { force: true }).catch(() => undefined);
    throw new CliError("FILE_UNWRITABLE", `cannot write ${path}: ${reasonOf(error)}`, error);
  }
}
