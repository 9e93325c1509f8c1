import { createHash } from "node:crypto";
import { resolve } from "node:path";
import {
  type ByteSource,
  type IndexedRecord,
  type PackHeader,
  type PackIndex,
  readPackHeader,
  readPackIndex,
  readRecords,
  resumePack,
} from "@holdfast/pack-format";
import { CliError, codeOf } from "../errors.js";
import { bytes, captureIdWidth, cell, count, facts, json, table, timeOfNs } from "../format.js";
import type { Io } from "../io.js";
import { openStore } from "../open.js";
import { openPackFile, openPackObject, type OpenedPack } from "../pack-source.js";
import type { Peers } from "../peers.js";
import { type ConnectionFlags, readSettings, wholeNumber } from "../settings.js";

/** Flags of `holdfast inspect`. */
export interface InspectFlags extends ConnectionFlags {
  readonly records?: string;
  readonly json?: boolean;
}

const headerBytes = 64;
const hashedAtOnce = 1 << 20;

/**
 * `holdfast inspect PACK`: header, blocks, index and records of one pack, every checksum verified.
 * @throws PackError for a pack that is cut off, damaged or newer, after printing what of it can be trusted.
 */
export async function inspect(pack: string, flags: InspectFlags, io: Io, peers: Peers): Promise<void> {
  const listed = wholeNumber("--records", flags.records ?? "5", 0);
  const opened = await openPack(pack, flags, io, peers);
  try {
    const { size } = opened.source;
    const read = async (offset: number, length: number): Promise<Uint8Array> => {
      io.signal.throwIfAborted(); // reads of a file take no signal, and there are many in a large pack
      return opened.source.read(offset, length);
    };
    await inspectSource(pack, { size, read }, { listed, json: flags.json === true }, io);
  } finally {
    await opened.close();
  }
}

async function openPack(pack: string, flags: InspectFlags, io: Io, peers: Peers): Promise<OpenedPack> {
  const local = await openPackFile(resolve(io.cwd, pack));
  if (local !== null) return local;
  const settings = await readSettings(flags, io);
  if (settings.store === null) {
    throw new CliError(
      "FILE_UNREADABLE",
      `there is no file ${pack}; if it is the key of a pack in a store, add --store fs:DIR, or --config FILE with a store`,
    );
  }
  const store = await openStore(settings, io, peers);
  const { requestTimeoutMs } = settings;
  const object = await openPackObject(store, pack, { clock: io.clock, requestTimeoutMs, signal: io.signal });
  if (object === null) {
    const place = settings.store.kind === "fs" ? settings.store.directory : `bucket ${settings.store.bucket}`;
    throw new CliError("FILE_UNREADABLE", `there is neither a file ${pack} nor such a key in ${place}`);
  }
  return object;
}

async function inspectSource(
  pack: string,
  source: ByteSource,
  o: { listed: number; json: boolean },
  io: Io,
): Promise<void> {
  const header = readPackHeader(await source.read(0, Math.min(headerBytes, source.size)));
  let index: PackIndex;
  let records: { verified: number; payloadBytes: number };
  try {
    index = await readPackIndex(source);
    records = await verifyRecords(source);
  } catch (error) {
    if (!o.json && !io.signal.aborted)
      io.out.write(facts([...headerFacts(pack, source.size, header), ...(await salvageFacts(source, error))]));
    throw error;
  }
  const sha256 = await hash(source);
  if (o.json) {
    io.out.write(
      `${json({ pack, ...header, schema: index.schema, bytes: source.size, sha256, ...records, records: index.records.length, blocks: blocksOf(index).length })}\n`,
    );
    return;
  }
  const schema = `${index.schema.name}, version ${index.schema.version}, ${Object.keys(index.schema.fields).length} fields`;
  io.out.write(
    facts([
      ...headerFacts(pack, source.size, header),
      ["schema", schema],
      ["sha256", sha256],
      ["records", count(index.records.length)],
      ["payloads", bytes(records.payloadBytes)],
    ]),
  );
  io.out.write(`\nblocks\n\n${blockTable(index)}`);
  if (o.listed > 0) io.out.write(`\nrecords\n\n${recordTable(index, o.listed)}`);
  io.out.write(`\nverified ${records.verified} of ${index.records.length} records, header, index and trailer\n`);
}

function headerFacts(pack: string, size: number, header: PackHeader): [string, string][] {
  return [
    ["pack", pack],
    ["size", bytes(size)],
    ["format", `version ${header.version}, payloads aligned to ${header.alignment} bytes`],
    ["pack id", header.packId],
    ["writer", `${header.writerId}, pack number ${header.sequence.toString()}`],
  ];
}

/** Of a pack that is cut off or damaged: how much of it a salvage would keep. */
async function salvageFacts(source: ByteSource, error: unknown): Promise<[string, string][]> {
  const code = codeOf(error);
  if (code !== "PACK_TRUNCATED" && code !== "PACK_CORRUPT") return [];
  try {
    const { writer, goodBytes } = await resumePack(source);
    return [
      [
        "intact",
        `${count(writer.recordCount)} records in the first ${count(goodBytes)} of ${count(source.size)} bytes`,
      ],
    ];
  } catch {
    return [["intact", "nothing"]]; // not even a header and a schema: the error that is about to be thrown says why
  }
}

/** Reads the pack from front to back, which checks every block, index, trailer and the SHA-256 of the trailer. */
async function verifyRecords(source: ByteSource): Promise<{ verified: number; payloadBytes: number }> {
  let payloadBytes = 0;
  let verified = 0;
  for await (const { payload } of readRecords(source)) {
    payloadBytes += payload.length;
    verified += 1;
  }
  return { verified, payloadBytes };
}

async function hash(source: ByteSource): Promise<string> {
  const sum = createHash("sha256");
  for (let offset = 0; offset < source.size; offset += hashedAtOnce) {
    sum.update(await source.read(offset, Math.min(hashedAtOnce, source.size - offset)));
  }
  return sum.digest("hex");
}

interface Block {
  readonly offset: number;
  readonly bytes: number;
  readonly codec: string;
  records: number;
  payloadBytes: number;
}

function blocksOf(index: PackIndex): Block[] {
  const blocks = new Map<number, Block>();
  for (const { locator } of index.records) {
    const { blockOffset: offset, blockBytes, codec } = locator;
    const block = blocks.get(offset) ?? { offset, bytes: blockBytes, codec, records: 0, payloadBytes: 0 };
    block.records += 1;
    block.payloadBytes += locator.payloadBytes;
    blocks.set(offset, block);
  }
  return [...blocks.values()].sort((a, b) => a.offset - b.offset);
}

/** Numbered as in the file, where block 0 is the schema. */
function blockTable(index: PackIndex): string {
  const blocks = blocksOf(index);
  const shown = blocks
    .slice(0, 20)
    .map((b, i) => [count(i + 1), count(b.offset), bytes(b.bytes), b.codec, count(b.records), bytes(b.payloadBytes)]);
  const right = true;
  const columns = [
    { head: "#", right },
    { head: "offset", right },
    { head: "size", right },
    { head: "codec" },
    { head: "records", right },
    { head: "payloads", right },
  ];
  return table(columns, shown) + more(blocks.length - shown.length, "blocks");
}

const more = (n: number, what: string): string => (n > 0 ? `  ... and ${count(n)} more ${what}\n` : "");

function recordTable(index: PackIndex, listed: number): string {
  const shown = index.records.slice(0, listed);
  const columns = [
    { head: "capture id" },
    { head: "captured at (UTC)" },
    { head: "session" },
    { head: "payload", right: true },
    { head: index.schema.orderBy.join(", ") },
  ];
  const row = (r: IndexedRecord): string[] => [
    cell(r.captureId, captureIdWidth),
    timeOfNs(r.capturedAtNs),
    cell(r.scope.session, 20),
    bytes(r.locator.payloadBytes),
    index.schema.orderBy.map((name) => cell(r.fields[name], 20)).join(", "),
  ];
  return table(columns, shown.map(row)) + more(index.records.length - shown.length, "records (--records N shows N)");
}
