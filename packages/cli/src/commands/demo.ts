import { createHash } from "node:crypto";
import { constants, existsSync } from "node:fs";
import { access, mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { type CaptureService, createCaptureService } from "@holdfast/capture-service";
import type { Clock } from "@holdfast/deadline-http";
import type { ObjectStore } from "@holdfast/object-store";
import { tensor } from "@holdfast/pack-format";
import type { Snapshot } from "@holdfast/reader";
import { abortable } from "../abortable.js";
import { CliError, reasonOf } from "../errors.js";
import { bytes, count, counted, duration, perSecond } from "../format.js";
import type { Io } from "../io.js";
import { openClient, openReader } from "../open.js";
import { importPeers, type Peers } from "../peers.js";
import { wholeNumber } from "../settings.js";

/** Flags of `holdfast demo`. */
export interface DemoFlags {
  readonly dir?: string;
  readonly records?: string;
  readonly port?: string;
  readonly stay?: boolean;
}

const shape = [64, 64];
const payloadBytes = 64 * 64 * 4;
const batch = 100;
/** Ends a hang: a busy machine may need minutes, and Ctrl-C ends the wait at any time. */
const flushTimeoutMs = 600_000;

type Tensors = typeof tensor;
interface Demo {
  readonly session: string;
  readonly records: number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/**
 * `holdfast demo`: the whole system in one process tree on this machine. Captures synthetic tensors, waits until they are
 * searchable, reads all of them back and verifies each.
 * @throws CliError `PACKAGE_MISSING`, `VERIFY_FAILED`; EmbeddedError `PORT_IN_USE`, `DIRECTORY_IN_USE` and others.
 */
export async function demo(flags: DemoFlags, io: Io, peers: Peers): Promise<void> {
  const records = wholeNumber("--records", flags.records ?? "1000", 1);
  const port = wholeNumber("--port", flags.port ?? "0", 0);
  const loaded = await importPeers(peers, "holdfast demo", ["@holdfast/clickhouse-embedded", "@holdfast/storage-fs"]);
  const dir = await openDirectory(flags.dir === undefined ? undefined : resolve(io.cwd, flags.dir));
  io.out.write(
    `Holdfast demo: ${count(records)} tensors of ${bytes(payloadBytes)}, ${flags.dir === undefined ? "for now" : "kept"} in ${dir}\n`,
  );
  try {
    const { startEmbeddedClickHouse } = loaded["@holdfast/clickhouse-embedded"];
    const engine = await startEmbeddedClickHouse({ dataDir: join(dir, "clickhouse"), port, signal: io.signal });
    try {
      const store = loaded["@holdfast/storage-fs"].fsStore({ directory: join(dir, "objects") });
      await run(engine.url, dir, store, records, io);
      if (flags.stay === true) await stay(engine.url, dir, io);
    } finally {
      await engine.stop();
    }
  } finally {
    if (flags.dir === undefined) await rm(dir, { recursive: true, force: true });
  }
}

/** The directory that was asked for, or a temporary one. */
async function openDirectory(asked: string | undefined): Promise<string> {
  if (asked === undefined) return mkdtemp(join(tmpdir(), "holdfast-demo-"));
  try {
    await makeDirectory(asked);
    await access(asked, constants.W_OK);
    return asked;
  } catch (error) {
    throw new CliError(
      "FILE_UNWRITABLE",
      `cannot write to ${asked}; choose another directory with --dir DIR: ${reasonOf(error)}`,
      error,
    );
  }
}

/** One level at a time: Node's recursive mkdir never ends below folders that refuse children with ENOENT, such as /proc. */
async function makeDirectory(dir: string): Promise<void> {
  if (existsSync(dir)) return;
  await makeDirectory(dirname(dir));
  await mkdir(dir);
}

async function run(url: string, dir: string, store: ObjectStore, records: number, io: Io): Promise<void> {
  const o: Demo = { session: `demo-${io.clock.wallMs().toString(36)}`, records, clock: io.clock, signal: io.signal };
  // Each fact is printed when it is known: the demo takes seconds, and a silent screen looks like a hanging one.
  const fact = (name: string, value: string): unknown => io.out.write(`  ${name.padEnd(10)}${value}\n`);
  const rate = (ms: number): string =>
    `${count(perSecond(records, ms))} records/s, ${bytes(perSecond(records * payloadBytes, ms))}/s`;

  const spool = { directory: join(dir, "spool") };
  const service = createCaptureService({ schema: tensor, store, catalog: { url }, spool, clock: io.clock });
  await service.start({ signal: io.signal });
  try {
    const appendMs = await timed(io.clock, () => abortable(io.signal, append(service, o)));
    fact("append", `${duration(appendMs)} until all were safe on disk (${rate(appendMs)})`);
    const publishMs = await timed(io.clock, () => abortable(io.signal, publish(service)));
    fact("publish", `${duration(publishMs)} more until all could be found`);
  } finally {
    // Also ends what Ctrl-C has left waiting above, and gives the lease back.
    await service.stop();
  }
  const client = openClient({ url, username: "default", password: "", database: "default" });
  try {
    const reader = await openReader({ client, schema: tensor, store }, io);
    const snapshot = await reader.snapshot({ signal: io.signal });
    let packs = 0;
    const readMs = await timed(io.clock, async () => {
      packs = (await readBack(snapshot, o)).size;
    });
    fact("read", `${duration(readMs)} for all of them, from ${counted(packs, "pack")} (${rate(readMs)})`);
    fact("snapshot", `version ${snapshot.version.toString()}`);
    io.out.write(`verified ${records} of ${records} records\n`);
    await reader[Symbol.asyncDispose]();
  } finally {
    await client.close();
  }
}

async function publish(service: CaptureService<Tensors>): Promise<void> {
  if (await service.flush(flushTimeoutMs)) return;
  throw new CliError("VERIFY_FAILED", `the records could not be found within ${duration(flushTimeoutMs)}`);
}

async function timed(clock: Clock, work: () => Promise<void>): Promise<number> {
  const from = clock.now();
  await work();
  return clock.now() - from;
}

/** The bytes of tensor i: pseudo-random from its number, so that they can be made again to compare. */
function payloadOf(session: string, i: number): Uint8Array {
  const seed = createHash("sha256").update(`${session}/${i.toString()}`).digest();
  const payload = new Uint8Array(payloadBytes);
  for (let at = 0; at < payloadBytes; at += seed.length) payload.set(seed, at);
  new DataView(payload.buffer).setUint32(0, i, true);
  return payload;
}

async function append(service: CaptureService<Tensors>, o: Demo): Promise<void> {
  const acknowledged: Promise<void>[] = [];
  for (let first = 0; first < o.records; first += batch) {
    o.signal.throwIfAborted();
    const numbers = Array.from({ length: Math.min(batch, o.records - first) }, (_, k) => first + k);
    const receipt = await service.appendBatch(numbers.map((i) => record(o.session, i)));
    const durable = receipt.durable();
    durable.catch(() => undefined); // reported by the await below
    acknowledged.push(durable);
  }
  await Promise.all(acknowledged);
}

function record(session: string, i: number): Parameters<CaptureService<Tensors>["append"]>[0] {
  return {
    scope: { tenant: "demo", session },
    fields: {
      experiment_id: "demo",
      run_id: session,
      request_id: "synthetic",
      sequence_id: "synthetic",
      model_id: "synthetic",
      model_revision: "1",
      adapter_revision: null,
      capture_policy_version: "1",
      hook_name: i % 2 === 0 ? "attention" : "mlp",
      layer_number: i % 12,
      producer_rank: 0,
      step_number: BigInt(i),
      token_start: BigInt(i),
      token_end: BigInt(i + 1),
      batch_position: 0,
      dtype: "float32",
      shape,
    },
    payload: payloadOf(session, i),
  };
}

/**
 * Reads every record of the session and compares it with what was appended: each must be there, once, and none besides.
 * Answers the ids of their packs.
 */
async function readBack(snapshot: Snapshot<Tensors>, o: Demo): Promise<Set<string>> {
  const seen = new Set<bigint>();
  const packs = new Set<string>();
  let cursor: string | null = null;
  do {
    const where = { run_id: o.session };
    const page: Awaited<ReturnType<typeof snapshot.search>> = await snapshot.search({
      where,
      limit: 1000,
      signal: o.signal,
      ...(cursor === null ? {} : { cursor }),
    });
    for await (const { record: found, payload } of snapshot.read(page.records, { signal: o.signal })) {
      const step = found.fields.step_number;
      if (seen.has(step)) throw new CliError("VERIFY_FAILED", `record ${found.captureId} was found twice`);
      if (step >= BigInt(o.records) || !Buffer.from(payloadOf(o.session, Number(step))).equals(payload)) {
        throw new CliError("VERIFY_FAILED", `record ${found.captureId} is not what was appended`);
      }
      seen.add(step);
      packs.add(found.pack.packId);
    }
    cursor = page.cursor;
  } while (cursor !== null);
  if (seen.size !== o.records) throw new CliError("VERIFY_FAILED", `${seen.size} of ${o.records} records were found`);
  return packs;
}

/** Keeps the engine running until Ctrl-C (or a year), so that the other commands can be tried on it. */
async function stay(url: string, dir: string, io: Io): Promise<void> {
  const flags = `--catalog ${url} --store fs:${join(dir, "objects")}`;
  io.out.write(`\nThe catalog stays up until Ctrl-C. In another terminal:\n\n`);
  io.out.write(`  holdfast status --catalog ${url}\n  holdfast search ${flags} --where layer_number=3 --limit 5\n`);
  const yearMs = 365 * 86_400_000;
  await io.clock.sleep(yearMs, { signal: io.signal }).catch(() => undefined); // ends by Ctrl-C, as it should
}
