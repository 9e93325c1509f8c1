import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { EmbeddedError } from "./errors.js";

/** Where the engine keeps its data within the data directory. */
export const engineDirectory = (dataDir: string): string => join(dataDir, "engine");

/** The data directory cannot be made or written. */
export function unwritable(dataDir: string, cause: unknown): EmbeddedError {
  const why = (cause as NodeJS.ErrnoException).code ?? String(cause);
  return new EmbeddedError(
    "DIRECTORY_UNWRITABLE",
    `the data directory ${dataDir} cannot be made or written (${why}); give dataDir a directory that this user may write, ` +
      `or leave it out for a temporary one`,
    { cause },
  );
}

/**
 * Why the engine did not open a directory. It tells the caller no more than that it could not, and prints the reason, so what the process
 * printed is read here.
 */
export async function explainOpenFailure(
  error: EmbeddedError,
  printed: string,
  dataDir: string,
): Promise<EmbeddedError> {
  if (/Cannot lock file/.test(printed)) {
    const status = await readFile(join(engineDirectory(dataDir), "status"), "utf8").catch(() => "");
    const pid = /^PID: (\d+)$/m.exec(status)?.[1];
    return new EmbeddedError(
      "DIRECTORY_IN_USE",
      `the data directory ${dataDir} is open in another server${pid === undefined ? "" : ` (pid ${pid})`}; ` +
        `connect to that one by its url, stop it, or use another dataDir`,
      { cause: error },
    );
  }
  if (/Permission denied|Read-only file system/i.test(printed)) return unwritable(dataDir, error);
  return new EmbeddedError("ENGINE_FAILED", `the engine could not open ${dataDir}: ${printed.trim()}`, {
    cause: error,
  });
}
