import { resolve } from "node:path";
import { systemClock, type Clock } from "@holdfast/deadline-http";
import { defineCaptureSchema, readRecords, type ByteSource, type Codec } from "@holdfast/pack-format";
import { ErrorLog } from "../../src/error-log.js";
import { createIds } from "../../src/ids.js";
import { admitRecord, type AdmittedRecord } from "../../src/records.js";
import type { SpoolFiles } from "../../src/spool/files.js";
import { openSpool } from "../../src/spool/open-spool.js";
import type { SealedPack } from "../../src/spool/pack-file.js";
import type { Spool, SpoolSettings } from "../../src/spool/spool.js";

export const notes = defineCaptureSchema({
  name: "notes",
  version: 1,
  fields: { kind: "LowCardinality(String)", step: "UInt64", tags: "Map(String, String)", shape: "Array(UInt32)" },
  orderBy: ["kind"],
});

export const directory = resolve("/spool");

export const settings: SpoolSettings = {
  directory,
  schema: notes,
  codec: "none",
  maxBytes: 4 * 1024 * 1024,
  maxPackBytes: 256 * 1024,
  maxPackRecords: 1000,
  maxLingerMs: 60_000,
  maxQueuedBytes: 1024 * 1024,
  admissionTimeoutMs: 2_000,
};

/** Numbers in [0, 1) that a seed decides. */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 0x1_0000_0000;
  };
}

let made = 0;

/** A record with a payload of `bytes` bytes that its id decides. */
export function record(o: { id?: string; bytes?: number; codec?: Codec; clock?: Clock } = {}): AdmittedRecord {
  const id = o.id ?? `record-${(made += 1)}`;
  const rules = {
    schema: notes,
    codec: o.codec ?? "none",
    maxRecordBytes: 1 << 28,
    clock: o.clock ?? systemClock,
    newId: () => id,
  };
  return admitRecord(rules, {
    scope: { tenant: "acme", session: "run-1" },
    fields: { kind: "test", step: BigInt(id.length), tags: { name: id }, shape: [1, 2] },
    payload: payloadOf(id, o.bytes ?? 1000),
  });
}

const payloads = new Map<string, Uint8Array>();

export function payloadOf(id: string, bytes: number): Uint8Array {
  const key = `${id}/${bytes}`;
  let payload = payloads.get(key);
  if (payload === undefined) {
    const random = seeded(Array.from(key).reduce((sum, char) => sum * 31 + char.charCodeAt(0), 7));
    payload = new Uint8Array(bytes);
    for (let i = 0; i < bytes; i += 1) payload[i] = Math.floor(random() * 256);
    payloads.set(key, payload);
  }
  return payload;
}

export async function open(
  files: SpoolFiles,
  o: Partial<SpoolSettings> & { clock?: Clock; random?: () => number } = {},
): Promise<Spool> {
  const { clock = systemClock, random = Math.random, ...changed } = o;
  return openSpool({
    settings: { ...settings, ...changed },
    allowSharedFileSystem: false,
    files,
    clock,
    random,
    newId: createIds(clock, o.random),
    errors: new ErrorLog(),
    own: async () => ({ release: async () => undefined }),
  });
}

/** The capture ids in a sealed pack, read through the spool's own body. Throws when the pack is not sound. */
export async function idsIn(spool: Spool, pack: SealedPack): Promise<string[]> {
  const body = spool.shelf.body(pack);
  if (body instanceof Uint8Array) throw new Error("a spooled body is a stream");
  const parts: Uint8Array[] = [];
  for await (const part of body.open()) parts.push(part);
  return idsOf(Buffer.concat(parts));
}

export async function idsOf(bytes: Uint8Array): Promise<string[]> {
  const source: ByteSource = {
    size: bytes.byteLength,
    read: async (offset, length) => bytes.subarray(offset, offset + length),
  };
  const ids: string[] = [];
  for await (const found of readRecords(source)) {
    if (Buffer.compare(found.payload, payloadOf(found.captureId, found.payload.byteLength)) !== 0) {
      throw new Error(`payload of ${found.captureId} is not what was appended`);
    }
    ids.push(found.captureId);
  }
  return ids;
}
