import { Writable } from "node:stream";

/** The requests of one upload session. */
export interface Session {
  start(): Promise<string>;
  put(address: string, body: Buffer, contentRange: string): Promise<PutAnswer>;
  /** The upload was given up: ends what is on its way. */
  abort(): void;
}

export interface PutAnswer {
  /** 308: the server wants more. */
  readonly status: number;
  /** Of a 308: the bytes that the server keeps, `bytes=0-N`; missing when it keeps none. */
  readonly range: string | undefined;
  readonly metadata: unknown;
}

export interface UploadOptions {
  /** So much is sent at a time, and kept in memory until the server says that it has it. */
  readonly chunkBytes: number;
  /** Puts in a row of which the server keeps nothing, before the upload fails. */
  readonly maxStuck: number;
}

/**
 * A resumable upload. Events: `uri` (its address), `progress`, `metadata` (of the object, before `finish`).
 *
 * What the server did not keep of a chunk is sent again from where it says, so the stored bytes are those written. The
 * last chunk carries the size of the object, and only it makes the object appear.
 */
export class ResumableUpload extends Writable {
  readonly #pieces: Buffer[] = [];
  /** Small writes are put together here: a piece for each could be millions. */
  #tail: Buffer = none;
  #tailUsed = 0;
  /** Bytes in all of them. */
  #buffered = 0;
  /** Puts in a row of which the server kept nothing. */
  #stuck = 0;
  #offset = 0;
  #address: string | null = null;

  constructor(
    readonly session: Session,
    readonly o: UploadOptions,
  ) {
    super();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, callback: (error?: Error | null) => void): void {
    this.#add(chunk);
    if (this.#buffered <= this.o.chunkBytes) callback();
    else settle(this.#sendFullChunks(), callback);
  }

  override _final(callback: (error?: Error | null) => void): void {
    settle(this.#deliver(this.#take(this.#buffered), true), callback);
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.session.abort();
    this.#pieces.length = 0;
    this.#tail = none;
    callback(error);
  }

  /** One chunk's worth stays: whether it is the last is only known at the end. */
  async #sendFullChunks(): Promise<void> {
    while (this.#buffered > this.o.chunkBytes) await this.#deliver(this.#take(this.o.chunkBytes), false);
  }

  #add(chunk: Buffer): void {
    this.#buffered += chunk.length;
    if (this.#tailUsed + chunk.length > this.#tail.length) this.#closeTail();
    if (chunk.length >= tailBytes) this.#pieces.push(chunk);
    else {
      if (this.#tail.length === 0) this.#tail = Buffer.allocUnsafe(tailBytes);
      this.#tailUsed += chunk.copy(this.#tail, this.#tailUsed);
    }
  }

  #closeTail(): void {
    if (this.#tailUsed > 0) this.#pieces.push(this.#tail.subarray(0, this.#tailUsed));
    this.#tail = none;
    this.#tailUsed = 0;
  }

  #take(size: number): Buffer {
    this.#closeTail();
    const taken: Buffer[] = [];
    let missing = size;
    while (missing > 0) {
      const piece = this.#pieces.shift();
      if (!piece) break;
      if (piece.length > missing) this.#pieces.unshift(piece.subarray(missing));
      const part = piece.subarray(0, missing);
      taken.push(part);
      missing -= part.length;
    }
    this.#buffered -= size;
    return taken.length === 1 && taken[0] ? taken[0] : Buffer.concat(taken);
  }

  async #deliver(chunk: Buffer, last: boolean): Promise<void> {
    this.#address ??= await this.#start();
    let rest = chunk;
    for (;;) {
      const from = this.#offset;
      const total = last ? String(from + rest.length) : "*";
      const span = rest.length === 0 ? "*" : `${from}-${from + rest.length - 1}`;
      const answer = await this.session.put(this.#address, rest, `bytes ${span}/${total}`);
      if (answer.status !== 308) {
        if (!last)
          throw new Error(`the server ended the upload after ${from + rest.length} bytes, and more were to come`);
        this.emit("metadata", answer.metadata);
        return;
      }
      const kept = keptBytes(answer.range);
      if (kept < from || kept > from + rest.length) {
        throw new Error(
          `the server keeps ${kept} bytes of an upload that stands between ${from} and ${from + rest.length}`,
        );
      }
      this.#stuck = kept === from ? this.#stuck + 1 : 0;
      if (this.#stuck >= this.o.maxStuck)
        throw new Error(`the server kept nothing of ${this.#stuck} requests, and has ${kept} bytes`);
      rest = rest.subarray(kept - from);
      this.#offset = kept;
      this.emit("progress", { bytesWritten: kept, contentLength: last ? kept + rest.length : "*" });
      if (last) continue;
      // The next chunk begins with it: by itself it could be smaller than the server takes before the last.
      if (rest.length > 0) this.#pieces.unshift(rest);
      this.#buffered += rest.length;
      return;
    }
  }

  async #start(): Promise<string> {
    const address = await this.session.start();
    this.emit("uri", address);
    return address;
  }
}

/** Writes of this size and above are not copied. */
const tailBytes = 64 * 1024;

const none = Buffer.alloc(0);

const settle = (work: Promise<void>, callback: (error?: Error | null) => void): void => {
  work.then(
    () => callback(),
    (error: unknown) => callback(error as Error),
  );
};

function keptBytes(range: string | undefined): number {
  if (range === undefined) return 0;
  const last = /^bytes=0-(\d+)$/.exec(range)?.[1];
  if (last === undefined) throw new Error(`the server answered a range that is none: ${range.slice(0, 100)}`);
  return Number(last) + 1;
}
