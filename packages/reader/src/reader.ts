import type { CaptureSchema } from "@holdfast/pack-format";
import type { Reader, ReaderOptions } from "./reader-types.js";

/** Opens a catalog for reading. */
export function openReader<S extends CaptureSchema>(options: ReaderOptions<S>): Promise<Reader<S>> {
  return Promise.reject(new Error(`not built yet: ${options.schema.name}`));
}
