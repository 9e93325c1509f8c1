import type { CaptureSchema } from "@holdfast/pack-format";
import type { Reader, Snapshot } from "@holdfast/reader";
import { CliError } from "../errors.js";
import type { Io } from "../io.js";

/** The snapshot that `--snapshot` names, or the newest. */
export async function snapshotAt(
  reader: Reader<CaptureSchema>,
  version: string | undefined,
  { signal }: Pick<Io, "signal">,
): Promise<Snapshot<CaptureSchema>> {
  if (version === undefined) return reader.snapshot({ signal });
  if (!/^\d{1,20}$/.test(version))
    throw new CliError("USAGE_INVALID", `--snapshot ${version}: must be a version, a whole number`);
  return reader.snapshot({ version: BigInt(version), signal });
}
