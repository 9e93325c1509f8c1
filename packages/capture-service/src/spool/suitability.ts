import { dirname, join } from "node:path";
import { CaptureError } from "../errors.js";
import type { SpoolFiles } from "./files.js";
import { identityFile } from "./identity.js";

/**
 * Kinds of file system on which a socket in the directory, or an fsync, does not mean what the spool needs: the other side may
 * be another kernel. Numbers as Linux's statfs gives them.
 */
const shared: ReadonlyMap<number, string> = new Map([
  [0x6969, "NFS"],
  [0xff534d42, "CIFS"],
  [0xfe534d42, "SMB2"],
  [0x517b, "SMB"],
  [0x65735546, "FUSE"],
  [0x01021997, "9p"],
  [0x0bd00bd0, "Lustre"],
  [0x19830326, "BeeGFS"],
  [0x47504653, "GPFS"],
  [0x5346414f, "AFS"],
  [0x00c36400, "Ceph"],
]);

/** Refuses a directory on a shared file system, and one inside another spool directory. SPOOL_UNSUITABLE. */
export async function checkSuitable(
  files: SpoolFiles,
  directory: string,
  o: { allowSharedFileSystem: boolean },
): Promise<void> {
  const kind = shared.get((await files.fileSystemType(directory)) >>> 0);
  if (kind !== undefined && !o.allowSharedFileSystem) {
    throw new CaptureError(
      "SPOOL_UNSUITABLE",
      `spool.directory ${directory} is on a ${kind} file system. One owner at a time and durable writes are assured on a ` +
        `local disk only: use one, or set spool.allowSharedFileSystem when no other machine can see this directory.`,
    );
  }
  for (let at = dirname(directory); ; at = dirname(at)) {
    if (await isSpool(files, at)) {
      throw new CaptureError(
        "SPOOL_UNSUITABLE",
        `spool.directory ${directory} lies inside another spool directory, ${at}. Spool directories must not be nested.`,
      );
    }
    if (dirname(at) === at) return;
  }
}

async function isSpool(files: SpoolFiles, directory: string): Promise<boolean> {
  try {
    await (await files.open(join(directory, identityFile), "read")).close();
    return true;
  } catch {
    return false;
  }
}
