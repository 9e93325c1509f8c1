import {
  blockLength,
  encodeBlockHeader,
  payloadStart,
  placePayloads,
  readableCodec,
  type BlockHeader,
  type Codec,
} from "./block.js";
import { plain } from "./byte-cursor.js";
import { PackError, shown } from "./errors.js";
import { frameBytes, packVersion } from "./layout.js";
import { limits } from "./limits.js";
import { MetadataBuilder } from "./metadata.js";
import { PackState, type SealedTail } from "./pack-state.js";
import { checkCompiled, type CaptureRecord } from "./record.js";
import { compileSchema, type CaptureSchema } from "./schema.js";
import { crcOn, crcWith } from "./crc.js";
import { Breather, crcOf, inSlices } from "./slices.js";
import { isUuid } from "./uuid.js";
import { compress } from "./zlib-work.js";

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

/** One block before it is bytes. */
interface Draft {
  readonly records: readonly CaptureRecord[];
  readonly crcs: readonly number[];
  readonly metadata: Buffer;
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
    this.#check(records);
    const drafts = await this.#draft(records);
    this.#state.checkRoom(
      records.length,
      drafts.reduce((bytes, draft) => bytes + frameBytes + draft.metadata.length, 0),
    );
    const blocks: { bytes: Buffer; header: BlockHeader; draft: Draft }[] = [];
    for (const [index, draft] of drafts.entries()) {
      blocks.push({ ...(await this.#block(draft, this.#state.nextBlock + index)), draft });
    }
    // Nothing from here on fails, so the state takes all blocks of the call or none.
    for (const { bytes, header, draft } of blocks) {
      await this.#state.append(
        bytes,
        header,
        draft.records.map((record) => record.captureId),
      );
    }
    const [first] = blocks;
    if (blocks.length === 1 && first !== undefined) return plain(first.bytes);
    return plain(Buffer.concat(blocks.map((block) => block.bytes)));
  }

  #check(records: readonly CaptureRecord[]): void {
    const fresh = new Set<string>();
    for (const record of records) {
      checkCompiled(this.#state.schema, record);
      const { captureId } = record;
      if (fresh.has(captureId) || this.#state.has(captureId)) {
        throw new PackError("RECORD_INVALID", `captureId ${shown(captureId)} is in this pack already`, {
          field: "captureId",
        });
      }
      fresh.add(captureId);
    }
  }

  /** Cuts the records into blocks of at most 1 MiB and writes their metadata. */
  async #draft(records: readonly CaptureRecord[]): Promise<Draft[]> {
    const drafts: Draft[] = [];
    let metadata = new MetadataBuilder(this.#state.schema);
    let [members, crcs, payloadBytes] = [[] as CaptureRecord[], [] as number[], 0];
    const close = (): void => {
      if (members.length > 0) drafts.push({ records: members, crcs, metadata: metadata.build() });
      metadata = new MetadataBuilder(this.#state.schema);
      [members, crcs, payloadBytes] = [[], [], 0];
    };
    const breather = new Breather();
    for (const record of records) {
      const crc = await crcOf(record.payload);
      metadata.add(record, crc);
      if (members.length > 0 && metadata.bytes + payloadBytes + record.payload.byteLength > limits.blockBytes) {
        metadata.undo();
        close();
        metadata.add(record, crc);
      }
      if (metadata.bytes > limits.metadataBytes) {
        throw new PackError(
          "RECORD_TOO_LARGE",
          `the fields of record ${shown(record.captureId)} take ${metadata.bytes} bytes and may take ` +
            `${limits.metadataBytes}: large values belong into the payload`,
          { field: "fields" },
        );
      }
      members.push(record);
      crcs.push(crc);
      payloadBytes += record.payload.byteLength;
      // A small record costs far more than its bytes: some 100 µs of work are counted as 16 KiB.
      await breather.after(record.payload.byteLength + 16 * 1024);
    }
    close();
    return drafts;
  }

  async #block(draft: Draft, number: number): Promise<{ bytes: Buffer; header: BlockHeader }> {
    const payloads = draft.records.map((record) => record.payload);
    const payloadBytes = payloads.reduce((sum, payload) => sum + payload.byteLength, 0);
    if (this.#codec === "gzip" && payloadBytes > 0) {
      const [first = new Uint8Array()] = payloads;
      const stored = await compress(payloads.length === 1 ? first : Buffer.concat(payloads));
      if (stored.length < payloadBytes) {
        const part = { bytes: stored, crc: await crcOf(stored) };
        return this.#assemble(draft, { number, codec: "gzip", payloadBytes }, [part]);
      }
    }
    const parts = payloads.map((bytes, index) => ({ bytes, crc: draft.crcs[index] ?? 0 }));
    return this.#assemble(draft, { number, codec: "none", payloadBytes }, parts);
  }

  async #assemble(
    draft: Draft,
    about: { number: number; codec: Codec; payloadBytes: number },
    parts: readonly { readonly bytes: Uint8Array; readonly crc: number }[],
  ): Promise<{ bytes: Buffer; header: BlockHeader }> {
    const { alignment, packId } = this.#state.header;
    const placed = placePayloads(
      parts.map((part) => part.bytes.byteLength),
      about.codec,
      alignment,
    );
    const lengths = { ...about, metadataBytes: draft.metadata.length, storedBytes: placed.bytes };
    const start = payloadStart(lengths, alignment);
    const block = Buffer.allocUnsafeSlow(blockLength(lengths, alignment));
    block.set(draft.metadata, frameBytes);
    let end = frameBytes + draft.metadata.length;
    let bodyCrc32 = crcOn(draft.metadata);
    const padTo = (at: number): void => {
      block.fill(0, end, at);
      bodyCrc32 = crcOn(block.subarray(end, at), bodyCrc32);
      end = at;
    };
    for (const [index, { bytes, crc }] of parts.entries()) {
      padTo(start + (placed.offsets[index] ?? 0));
      bodyCrc32 = crcWith(bodyCrc32, bytes, crc);
      await inSlices(bytes, (slice) => {
        block.set(slice, end);
        end += slice.byteLength;
      });
    }
    padTo(block.length);
    const recordCount = draft.records.length;
    const header: BlockHeader = {
      ...lengths,
      ...{ packId, kind: "records", recordCount, blockBytes: block.length, bodyCrc32 },
    };
    encodeBlockHeader(header, block);
    return { bytes: block, header };
  }
}
