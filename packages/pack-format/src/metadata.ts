import { ByteCursor } from "./byte-cursor.js";
import { ByteSink, varuintBytes } from "./byte-sink.js";
import { readRef, type StringRefs } from "./field-codecs.js";
import type { FieldValue } from "./field-types.js";
import { checkFields, checkName, type CaptureRecord, type Scope } from "./record.js";
import type { CompiledSchema } from "./schema.js";
import { isUuid } from "./uuid.js";

/** The metadata of one record: all of it but the payload and where that lies. */
export interface RecordMetadata {
  readonly captureId: string;
  readonly capturedAtNs: bigint;
  readonly scope: Scope;
  readonly fields: Readonly<Record<string, FieldValue>>;
  readonly payloadBytes: number;
  readonly payloadCrc32: number;
}

const [textId, uuidId] = [0, 1];

/** Builds the metadata section of one block, record by record; the last one can be taken back. */
export class MetadataBuilder implements StringRefs {
  readonly #schema: CompiledSchema;
  readonly #strings: string[] = [];
  readonly #refs = new Map<string, number>();
  readonly #table = new ByteSink();
  readonly #records = new ByteSink(4096);
  #undo = { strings: 0, table: 0, records: 0 };

  constructor(schema: CompiledSchema) {
    this.#schema = schema;
  }

  /** Bytes of the section as it is. */
  get bytes(): number {
    return varuintBytes(this.#strings.length) + this.#table.length + this.#records.length;
  }

  refOf(text: string): number {
    const known = this.#refs.get(text);
    if (known !== undefined) return known;
    const ref = this.#strings.push(text) - 1;
    this.#refs.set(text, ref);
    this.#table.text(text);
    return ref;
  }

  /** Adds a checked record. */
  add(record: CaptureRecord, payloadCrc32: number): void {
    this.#undo = { strings: this.#strings.length, table: this.#table.length, records: this.#records.length };
    const sink = this.#records;
    if (isUuid(record.captureId)) {
      sink.u8(uuidId);
      sink.uuid(record.captureId);
    } else {
      sink.u8(textId);
      sink.text(record.captureId);
    }
    sink.u64(record.capturedAtNs);
    sink.varuint(this.refOf(record.scope.tenant));
    sink.varuint(this.refOf(record.scope.session));
    sink.varuint(record.payload.byteLength);
    sink.u32(payloadCrc32);
    const values: Readonly<Record<string, FieldValue | undefined>> = record.fields;
    for (const { name, codec } of this.#schema.fields) {
      codec.write(sink, (Object.hasOwn(values, name) ? values[name] : undefined) ?? null, this);
    }
  }

  /** Takes the last added record back. */
  undo(): void {
    for (const text of this.#strings.splice(this.#undo.strings)) this.#refs.delete(text);
    this.#table.truncate(this.#undo.table);
    this.#records.truncate(this.#undo.records);
  }

  /** The section: the string table, then the records. */
  build(): Buffer {
    const head = new ByteSink(8);
    head.varuint(this.#strings.length);
    return Buffer.concat([head.view(), this.#table.view(), this.#records.view()]);
  }
}

/** The fewest bytes that the metadata of a record takes, its fields aside. */
const leastRecordBytes = 2 + 8 + 1 + 1 + 1 + 4;

/** What a metadata section must hold, where it lies in the pack, and whether the rules beyond its form are checked. */
export interface ExpectedMetadata {
  readonly count: number;
  readonly payloadBytes: number;
  readonly offset: number;
  readonly rules: "check" | "trust";
}

/**
 * Reads the metadata section of a block: `count` records whose payloads have `payloadBytes` bytes together. Throws
 * PACK_CORRUPT or, when the rules are checked, RECORD_INVALID.
 */
export function readMetadata(schema: CompiledSchema, bytes: Uint8Array, expected: ExpectedMetadata): RecordMetadata[] {
  const cursor = new ByteCursor(bytes, expected.offset);
  const strings: string[] = [];
  for (let left = cursor.count(1); left > 0; left -= 1) strings.push(cursor.text());
  if (expected.count * leastRecordBytes > cursor.left) cursor.fail(`${expected.count} records do not fit`);
  const records: RecordMetadata[] = [];
  let payloadBytes = 0;
  for (let left = expected.count; left > 0; left -= 1) {
    const record = readRecordMetadata(schema, cursor, strings);
    if (expected.rules === "check") checkMetadata(schema, record);
    payloadBytes += record.payloadBytes;
    records.push(record);
  }
  if (cursor.left !== 0) cursor.fail(`${cursor.left} bytes are left over after the metadata`);
  if (payloadBytes !== expected.payloadBytes) {
    cursor.fail(`the records' payloads have ${payloadBytes} bytes and the block says ${expected.payloadBytes}`);
  }
  return records;
}

function readRecordMetadata(schema: CompiledSchema, cursor: ByteCursor, strings: readonly string[]): RecordMetadata {
  const captureId = readCaptureId(cursor);
  const capturedAtNs = cursor.u64();
  const scope = { tenant: readRef(cursor, strings), session: readRef(cursor, strings) };
  const payloadBytes = cursor.varuint();
  const payloadCrc32 = cursor.u32();
  const fields: Record<string, FieldValue> = {};
  for (const { name, codec } of schema.fields) fields[name] = codec.read(cursor, strings);
  return { captureId, capturedAtNs, scope, fields, payloadBytes, payloadCrc32 };
}

function readCaptureId(cursor: ByteCursor): string {
  const form = cursor.u8();
  if (form === uuidId) return cursor.uuid();
  if (form !== textId) return cursor.fail(`capture id form ${form} is unknown`);
  const text = cursor.text();
  return isUuid(text) ? cursor.fail("a capture id that is a UUID is written as text") : text;
}

function checkMetadata(schema: CompiledSchema, record: RecordMetadata): void {
  checkName("captureId", record.captureId);
  checkName("scope.tenant", record.scope.tenant);
  checkName("scope.session", record.scope.session);
  checkFields(schema, record.fields, record.payloadBytes);
}
