import type { Clock } from "@holdfast/deadline-http";
import {
  checkRecord,
  type CaptureRecord,
  type CaptureSchema,
  type Codec,
  type RecordInput,
} from "@holdfast/pack-format";
import { CaptureError } from "./errors.js";

/** The metadata of one record may take this much; pack-format refuses more. */
const greatestMetadataBytes = 1024 * 1024;

/** A record that has been checked and copied, with the most room that it can take in a pack. */
export type AdmittedRecord = {
  readonly record: CaptureRecord;
  /** Upper bound of the growth of a sealed pack by this record, were it alone in its block. */
  readonly packBytes: number;
  /** What it holds in memory, about. */
  readonly memoryBytes: number;
};

export type RecordRules = {
  readonly schema: CaptureSchema;
  readonly codec: Codec;
  readonly maxRecordBytes: number;
  readonly clock: Clock;
  readonly newId: () => string;
};

/**
 * Copies and checks a record. Everything happens before it returns, so the caller may reuse its buffers at once.
 * RECORD_INVALID, RECORD_TOO_LARGE.
 */
export function admitRecord<S extends CaptureSchema>(rules: RecordRules, input: RecordInput<S>): AdmittedRecord {
  const payload = copyOf(input.payload, rules.maxRecordBytes);
  const record = {
    captureId: input.captureId ?? rules.newId(),
    capturedAtNs: input.capturedAtNs ?? BigInt(Math.floor(rules.clock.wallMs())) * 1_000_000n,
    scope: { ...input.scope },
    fields: copyOfFields(input.fields),
    payload,
  } as CaptureRecord;
  translated(() => checkRecord(rules.schema, record));
  const metadata = metadataBound(record);
  if (metadata > greatestMetadataBytes) {
    throw new CaptureError(
      "RECORD_TOO_LARGE",
      `the fields of record ${record.captureId} take up to ${metadata} bytes and may take ${greatestMetadataBytes}: ` +
        `put what is large into the payload.`,
    );
  }
  return {
    record,
    packBytes: packBound(metadata, payload.byteLength, rules.codec),
    memoryBytes: payload.byteLength + metadata,
  };
}

function copyOf(view: unknown, maxBytes: number): Uint8Array {
  if (!ArrayBuffer.isView(view)) {
    throw new CaptureError(
      "RECORD_INVALID",
      `payload is ${view === null ? "null" : typeof view}; it must be a Uint8Array or another view of an ArrayBuffer.`,
    );
  }
  if (view.byteLength > maxBytes) {
    throw new CaptureError(
      "RECORD_TOO_LARGE",
      `payload has ${view.byteLength} bytes, spool.maxRecordBytes is ${maxBytes}: split it over several records, or raise ` +
        `spool.maxRecordBytes (and spool.maxPackBytes with it).`,
    );
  }
  // slice() of a Uint8Array over exactly the viewed bytes: a copy of its own, never a view of the caller's memory.
  return new Uint8Array(view.buffer, view.byteOffset, view.byteLength).slice();
}

/** Fields are plain data; what is not is left for the check to refuse. */
function copyOfFields(fields: unknown): unknown {
  if (typeof fields !== "object" || fields === null || Array.isArray(fields)) return fields;
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, copyOfValue(value)]));
}

/**
 * A `Map`, a `Date` or another instance of a class stays what it is, for checkRecord to refuse: a copy of its properties would be
 * an empty object, and what it holds lost.
 */
function copyOfValue(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(copyOfValue);
  if (typeof value !== "object" || value === null) return value;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== null && Object.getPrototypeOf(prototype) !== null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, copyOfValue(item)]));
}

/** RECORD_… refusals of pack-format leave this package under its own error class, code and message kept. */
function translated(check: () => void): void {
  try {
    check();
  } catch (error) {
    const { code, message } = error as { code?: unknown; message?: unknown };
    if (code !== "RECORD_INVALID" && code !== "RECORD_TOO_LARGE") throw error;
    throw new CaptureError(code, String(message).replace(/^\[[A-Z_]+\] /, ""), { cause: error });
  }
}

/** At least the bytes that pack-format takes for the record without its payload. */
function metadataBound(record: CaptureRecord): number {
  const names = [record.captureId, record.scope.tenant, record.scope.session];
  return 64 + names.reduce((sum, name) => sum + textBound(name), 0) + valueBound(record.fields);
}

// Five bytes are the longest length prefix, five more a reference to a string that is shared within a block.
const textBound = (text: string): number => Buffer.byteLength(text) + 10;

function valueBound(value: unknown): number {
  if (typeof value === "string") return textBound(value);
  if (Array.isArray(value)) return value.reduce((sum: number, item) => sum + valueBound(item), 10);
  if (typeof value === "object" && value !== null) {
    return Object.entries(value).reduce((sum, [key, item]) => sum + textBound(key) + valueBound(item), 10);
  }
  return 10;
}

/** Headers, padding and the copy of the metadata in the index included. `records.test.ts` holds it against the writer. */
function packBound(metadata: number, payloadBytes: number, codec: Codec): number {
  const compressed = codec === "none" ? 0 : Math.ceil(payloadBytes / 256) + 1024;
  return 2 * metadata + payloadBytes + compressed + 512;
}
