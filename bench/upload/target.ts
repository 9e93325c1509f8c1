import { createReadStream, type ReadStream } from "node:fs";
import type { ObjectStore } from "@holdfast/object-store";

export type Upload = (key: string, path: string) => Promise<void>;

/** A server, with our store on it and what a user would write with the bare SDK. */
export interface Target {
  readonly endpoint: string;
  readonly store: ObjectStore;
  /** Uploads a file below the store's prefix. */
  readonly bare: Upload;
  stop(): void;
}

/** Opens a target whose keys, those of the bare loop included, are below `keyPrefix`. */
export type OpenTarget = (keyPrefix: string, packBytes: number) => Target;

const pieceBytes = 256 * 1024;

/** How both read the files. */
export const reading = (path: string): ReadStream => createReadStream(path, { highWaterMark: pieceBytes });
