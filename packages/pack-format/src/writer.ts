import { readableCodec, type Codec } from "./block.js";
import { encodeRecordBlock, type EncodedBlock } from "./block-encoder.js";
import { plain } from "./byte-cursor.js";
import { draftBlocks } from "./drafts.js";
import { PackError, shown } from "./errors.js";
import { frameBytes, packVersion } from "./layout.js";
import { limits } from "./limits.js";
import { PackState, type SealedTail } from "./pack-state.js";
import { checkCompiled, type CaptureRecord } from "./record.js";
import { compileSchema, type CaptureSchema } from "./schema.js";
import { Breather, recordWork } from "./slices.js";
import { isUuid } from "./uuid.js";

/** Options of {@link createPackWriter}. */
export interface PackWriterOptions {
  readonly schema: CaptureSchema;
  /** UUID in lower case; fixed when the file is opened, and part of its key. */
  readonly packId: string;
  /** UUID in lower case of the spool owner that numbers its packs. */
  readonly writerId: string;
  /** 0 to 9999999999999999; each number of a writer is used once. */
  readonly sequence: bigint;
  /** How payloads are stored; default none. A block that gzip does not make smaller is stored with none. */
  readonly codec?: Codec;
  /** A power of two from 1 to 4096; default 64. See {@link PackHeader.alignment}. */
  readonly alignment?: number;
  /** Wall clock, ms since 1970; see {@link PackHeader.retainUntilMs}. */
  readonly retainUntilMs?: number;
}

/**
 * Makes the bytes of one pack, in order: `header`, then what each `encodeBlock` gives, then the tail of `finish`. It does
 * no I/O and keeps no payload. Calls may overlap; they take effect in the order in which they were made.
 */
export interface PackWriter {
  /** What the file begins with: the pack header and the schema block. */
  readonly header: Uint8Array;
  /** Bytes so far, the header's included. */
  readonly size: number;
  readonly recordCount: number;
  /** Size of the sealed pack, to the byte, if it were finished now. */
  projectedSize(): number;
  /** Whether a record of this id is in the pack already; `encodeBlock` refuses a second one. */
  has(captureId: string): boolean;
  /**
   * The bytes of the next block, to be appended right after what came before. Records that together have more than 1 MiB
   * give several blocks in one piece of bytes; no records give no bytes. The payloads must not change meanwhile.
   *
   * All or nothing: after an error the writer is as it was before the call. Throws RECORD_INVALID (also for a capture id
   * that the pack has already), RECORD_TOO_LARGE, PACK_FULL (seal this pack, go on in a new one) or PACK_SEALED.
   */
  encodeBlock(records: readonly CaptureRecord[]): Promise<Uint8Array>;
  /** Index and trailer. Called again it gives the same; afterwards `encodeBlock` throws PACK_SEALED. */
  finish(): Promise<SealedTail>;
}

/**
 * Begins a pack. Throws SCHEMA_INVALID, CONFIG_INVALID (an id that is no UUID, a number out of its range) or
 * UNSUPPORTED_CODEC.
 */
export function createPackWriter(o: PackWriterOptions): PackWriter {
  const schema = compileSchema(o.schema);
  const { packId, writerId, sequence, alignment = 64, retainUntilMs } = o;
  const codec = readableCodec(o.codec ?? "none");
  if (!isUuid(packId)) throw config("packId", "a UUID in lower case with dashes", packId);
  if (!isUuid(writerId)) throw config("writerId", "a UUID in lower case with dashes", writerId);
  if (typeof sequence !== "bigint" || sequence < 0n || sequence >= limits.sequence) {
    throw config("sequence", "a bigint of at most 16 decimal digits", sequence);
  }
  if (!Number.isInteger(Math.log2(alignment)) || alignment < 1 || alignment > limits.alignment) {
    throw config("alignment", `a power of two from 1 to ${limits.alignment}`, alignment);
  }
  if (
    retainUntilMs !== undefined &&
    !(Number.isInteger(retainUntilMs) && retainUntilMs > 0 && retainUntilMs < 2 ** 48)
  ) {
    throw config("retainUntilMs", "a whole number of ms since 1970, above 0 and below 2^48", retainUntilMs);
  }
  const header = {
    ...{ version: packVersion, packId, writerId, sequence, schemaId: schema.id, alignment, flags: 0 },
    retainUntilMs: retainUntilMs ?? null,
  };
  return new Writer(new PackState(header, schema), codec);
}

function config(name: string, takes: string, value: unknown): PackError {
  return new PackError("CONFIG_INVALID", `${name} takes ${takes}; got ${shown(value)}`, { field: name });
}

async function inOnePiece(parts: readonly Buffer[]): Promise<Uint8Array> {
  const [first] = parts;
  if (parts.length === 1 && first !== undefined) return plain(first);
  const whole = Buffer.allocUnsafeSlow(parts.reduce((bytes, part) => bytes + part.length, 0));
  const breather = new Breather();
  let at = 0;
  for (const part of parts) {
    at += part.copy(whole, at);
    await breather.after(part.length);
  }
  return plain(whole);
}

/** @internal the writer over a state that may be new or salvaged. */
export class Writer implements PackWriter {
  readonly #state: PackState;
  readonly #codec: Codec;
  #last: Promise<unknown> = Promise.resolve();
  #sealed: Promise<SealedTail> | null = null;

  constructor(state: PackState, codec: Codec) {
    this.#state = state;
    this.#codec = codec;
  }

  get header(): Uint8Array {
    return this.#state.opening;
  }

  get size(): number {
    return this.#state.size;
  }

  get recordCount(): number {
    return this.#state.recordCount;
  }

  projectedSize(): number {
    return this.#state.sealedSize;
  }

  has(captureId: string): boolean {
    return this.#state.has(captureId);
  }

  encodeBlock(records: readonly CaptureRecord[]): Promise<Uint8Array> {
    if (this.#sealed !== null) return Promise.reject(new PackError("PACK_SEALED", "the pack is finished"));
    return this.#inOrder(() => this.#encode(records));
  }

  finish(): Promise<SealedTail> {
    this.#sealed ??= this.#inOrder(() => this.#state.seal());
    return this.#sealed;
  }

  #inOrder<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(work);
    this.#last = result.catch(() => undefined);
    return result;
  }

  async #encode(records: readonly CaptureRecord[]): Promise<Uint8Array> {
    await this.#check(records);
    const { schema, header, nextBlock } = this.#state;
    const drafts = await draftBlocks(schema, records);
    this.#state.checkRoom(
      records.length,
      drafts.reduce((bytes, draft) => bytes + frameBytes + draft.metadata.length, 0),
    );
    const blocks: EncodedBlock[] = [];
    const place = { packId: header.packId, alignment: header.alignment, codec: this.#codec };
    for (const draft of drafts) {
      blocks.push(await encodeRecordBlock(draft, { ...place, number: nextBlock + blocks.length }));
    }
    const result = await inOnePiece(blocks.map((block) => block.bytes));
    // Nothing from here on fails, so the state takes all blocks of the call or none.
    for (const block of blocks) await this.#state.append(block.bytes, block.header, block.captureIds);
    return result;
  }

  async #check(records: readonly CaptureRecord[]): Promise<void> {
    const fresh = new Set<string>();
    const breather = new Breather();
    for (const record of records) {
      checkCompiled(this.#state.schema, record);
      const { captureId } = record;
      if (fresh.has(captureId) || this.#state.has(captureId)) {
        const field = "captureId";
        throw new PackError("RECORD_INVALID", `${field} ${shown(captureId)} is in this pack already`, { field });
      }
      fresh.add(captureId);
      await breather.after(recordWork);
    }
  }
}
