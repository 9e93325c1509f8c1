import { createWriteStream } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { QueryError } from "./clickhouse-errors.js";

/** A complete insert body in a file of its own. */
export type SpooledBody = { readonly path: string; readonly bytes: number; remove(): Promise<void> };

/**
 * Bodies go through files, never into the text of a statement: the engine ends inline data at the first empty line and runs what follows
 * as SQL.
 */
export class BodySpool {
  readonly #directory: string;
  #next = 0;

  constructor(directory: string) {
    this.#directory = directory;
  }

  async write(body: AsyncIterable<Buffer>, signal: AbortSignal): Promise<SpooledBody> {
    const path = join(this.#directory, `${String(this.#next++)}.body`);
    const file = createWriteStream(path, { flags: "wx", mode: 0o600 });
    const remove = (): Promise<void> => rm(path, { force: true });
    try {
      await pipeline(Readable.from(body, { objectMode: false }), file, { signal });
    } catch (error) {
      await remove();
      if ((error as NodeJS.ErrnoException).code === "ENOSPC") {
        throw QueryError.of(243, "The disk of the data directory is full: the body of the insert cannot be stored.");
      }
      throw error;
    }
    return { path, bytes: file.bytesWritten, remove };
  }
}
