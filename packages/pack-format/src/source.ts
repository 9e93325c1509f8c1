import { PackError, shown } from "./errors.js";

/**
 * Where a pack is read from. `read` gives exactly `length` bytes from `offset`, or rejects; it is never asked for bytes
 * beyond `size`, nor for none. What it rejects with reaches the caller as it is.
 */
export interface ByteSource {
  readonly size: number;
  read(offset: number, length: number): Promise<Uint8Array>;
}

/** One read of a source, with what came back checked. */
export async function readExactly(source: ByteSource, offset: number, length: number): Promise<Uint8Array> {
  if (offset + length > sizeOf(source)) {
    throw new PackError(
      "PACK_TRUNCATED",
      `bytes ${offset} to ${offset + length} are needed and the pack has ${source.size}`,
      { offset },
    );
  }
  if (length === 0) return new Uint8Array();
  const bytes = await source.read(offset, length);
  if (bytes.byteLength === length) return bytes;
  throw new PackError(
    "PACK_TRUNCATED",
    `the source has ${source.size} bytes and gave ${bytes.byteLength} of the ${length} at ${offset}`,
    { offset },
  );
}

/** The size of a source. Throws PACK_TRUNCATED when it is not a size at all. */
export function sizeOf(source: ByteSource): number {
  if (Number.isSafeInteger(source.size) && source.size >= 0) return source.size;
  throw new PackError("PACK_TRUNCATED", `a source's size is a whole number of bytes; got ${shown(source.size)}`);
}

const windowBytes = 1024 * 1024 + 64 * 1024;

/** Reads a source from front to back with few, larger reads. */
export class Window {
  readonly #source: ByteSource;
  #bytes: Uint8Array = new Uint8Array();
  #offset = 0;

  constructor(source: ByteSource) {
    this.#source = source;
  }

  get size(): number {
    return sizeOf(this.#source);
  }

  /** The bytes from `offset`: PACK_TRUNCATED when the source does not have so many. */
  async bytes(offset: number, length: number): Promise<Uint8Array> {
    const start = offset - this.#offset;
    if (start >= 0 && start + length <= this.#bytes.byteLength) return this.#bytes.subarray(start, start + length);
    const wanted = Math.max(length, Math.min(windowBytes, this.size - offset));
    this.#bytes = await readExactly(this.#source, offset, wanted);
    this.#offset = offset;
    return this.#bytes.subarray(0, length);
  }
}
