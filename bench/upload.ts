// Verified uploads of 64 MiB packs, beside a loop that a user would write with the bare SDK: the same server, files, number at once and checksum
// (CRC-32 in a header; Ceph's gateway takes none behind the body). Rounds of one and of the other take turns, so that both meet the
// same weather; what they stored is deleted between the rounds, unmeasured. Timings are reported, never judged.
import { execFileSync } from "node:child_process";
import { randomBytes, randomUUID } from "node:crypto";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { createReadStream } from "node:fs";
import { mkdtemp, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { crc32 } from "node:zlib";
import { PutObjectCommand, S3Client } from "@aws-sdk/client-s3";
import { type Body, createLimiter, type ObjectStore, putVerified } from "@holdfast/object-store";
import { s3Store } from "@holdfast/storage-s3";
import type { Benchmark } from "./benchmark.js";

const MiB = 1 << 20;
const packBytes = 64 * MiB;
const packsPerRound = 8; // half a GiB
const atOnce = 4;
const pieceBytes = 256 * 1024; // how both read the files

interface Server {
  readonly endpoint: string;
  readonly bucket: string;
  readonly region: string;
  readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string };
  stop(): void;
}

/** The server that HOLDFAST_S3_URL names, or one of our own, from Debian's packages. */
function openServer(): Server {
  const { env } = process;
  const url = env["HOLDFAST_S3_URL"];
  if (url !== undefined) {
    const accessKeyId = env["HOLDFAST_S3_ACCESS_KEY_ID"] ?? "";
    const secretAccessKey = env["HOLDFAST_S3_SECRET_ACCESS_KEY"] ?? "";
    const bucket = env["HOLDFAST_S3_BUCKET"] ?? "holdfast";
    const region = env["HOLDFAST_S3_REGION"] ?? "us-east-1";
    return { endpoint: url, bucket, region, credentials: { accessKeyId, secretAccessKey }, stop: () => undefined };
  }
  const script = fileURLToPath(new URL("../scripts/rgw.mjs", import.meta.url));
  const rgw = (...args: string[]) => execFileSync(process.execPath, [script, ...args], { encoding: "utf8" });
  const { endpoint, bucket, region, dir, ...credentials } = JSON.parse(rgw("start")) as Server["credentials"] &
    Record<"endpoint" | "bucket" | "region" | "dir", string>;
  return { endpoint, bucket, region, credentials, stop: () => void rgw("stop", dir) };
}

async function writePacks(folder: string): Promise<string[]> {
  const paths = Array.from({ length: atOnce }, (_, i) => join(folder, `pack${i.toString()}`));
  for (const path of paths) {
    const file = await open(path, "w");
    for (let at = 0; at < packBytes; at += MiB) await file.write(randomBytes(MiB));
    await file.close();
  }
  return paths;
}

type Upload = (key: string, path: string) => Promise<void>;

const reading = (path: string) => createReadStream(path, { highWaterMark: pieceBytes });

function ours(store: ObjectStore): Upload {
  return async (key, path) => {
    const body: Body = { size: packBytes, open: () => reading(path) };
    const result = await putVerified(store, key, body, { writeId: key, signal: AbortSignal.timeout(120_000) });
    if (result.outcome !== "created") throw new Error(`an upload ended as ${result.outcome}`);
  };
}

/** What a user writes who wants a checksum that this server can take. */
function bare(client: S3Client, Bucket: string): Upload {
  return async (Key, path) => {
    let sum = 0;
    for await (const piece of reading(path) as AsyncIterable<Buffer>) sum = crc32(piece, sum);
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32BE(sum);
    const ChecksumCRC32 = bytes.toString("base64");
    await client.send(
      new PutObjectCommand({ Bucket, Key, Body: reading(path), ContentLength: packBytes, ChecksumCRC32 }),
    );
  };
}

/** Seconds of one round. */
async function round(upload: Upload, prefix: string, paths: readonly string[]): Promise<number> {
  const places = createLimiter(atOnce);
  const never = new AbortController().signal;
  const from = performance.now();
  await Promise.all(
    Array.from({ length: packsPerRound }, (_, i) =>
      places(() => upload(`${prefix}${i.toString()}`, paths[i % paths.length] ?? ""), never),
    ),
  );
  return (performance.now() - from) / 1000;
}

async function empty(store: ObjectStore, prefix: string): Promise<void> {
  const signal = AbortSignal.timeout(60_000);
  for await (const { key } of store.list({ prefix, signal })) await store.delete(key, { signal });
}

/** Counts the requests that this process makes while `work` runs, by method. */
async function counting<T>(counts: Map<string, number>, work: () => Promise<T>): Promise<T> {
  const count = (message: unknown) => {
    const { method } = (message as { request: { method: string } }).request;
    counts.set(method, (counts.get(method) ?? 0) + 1);
  };
  subscribe("http.client.request.start", count);
  try {
    return await work();
  } finally {
    unsubscribe("http.client.request.start", count);
  }
}

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

/** Memory of the process in MiB, without what only waits for the collector. */
function restingMemory(): number {
  collectGarbage();
  return process.memoryUsage.rss() / MiB;
}

/** MiB that memory grows by per GiB uploaded: the slope of the least-squares line. */
function slope(points: readonly { readonly gib: number; readonly mib: number }[]): number {
  const mean = (of: (p: (typeof points)[number]) => number) =>
    points.reduce((sum, p) => sum + of(p), 0) / points.length;
  const [x, y] = [mean((p) => p.gib), mean((p) => p.mib)];
  const above = points.reduce((sum, p) => sum + (p.gib - x) * (p.mib - y), 0);
  return above / points.reduce((sum, p) => sum + (p.gib - x) ** 2, 0);
}

const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[values.length >> 1] ?? 0;

export const upload: Benchmark = async ({ quick, directory }) => {
  process.env["AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED"] ??= "true"; // it would stand in the middle of the table
  const rounds = quick ? 3 : 13;
  const folder = await mkdtemp(join(directory ?? tmpdir(), "holdfast-bench-"));
  const server = openServer();
  const keyPrefix = `bench-${randomUUID()}/`;
  const { endpoint, region, bucket, credentials } = server;
  const client = new S3Client({
    endpoint,
    region,
    credentials,
    forcePathStyle: true,
    requestChecksumCalculation: "WHEN_REQUIRED",
  });
  try {
    const store = s3Store({ endpoint, region, bucket, credentials, keyPrefix, allowHttp: true });
    const paths = await writePacks(folder);
    console.log(
      `upload: ${rounds.toString()} rounds of ${packsPerRound.toString()} packs of 64 MiB each, ${atOnce.toString()} at once, to ${endpoint}, Node ${process.version}\n`,
    );
    const counts = new Map<string, number>();
    const memory: { gib: number; mib: number }[] = [];
    const seconds = { ours: [] as number[], bare: [] as number[] };
    for (let i = 0; i <= rounds; i += 1) {
      const mine = async () => {
        const took = await counting(counts, () => round(ours(store), `ours-${i.toString()}/`, paths));
        memory.push({ gib: ((i + 1) * packsPerRound * packBytes) / 2 ** 30, mib: restingMemory() });
        return took;
      };
      const theirs = () => round(bare(client, bucket), `${keyPrefix}bare-${i.toString()}/`, paths);
      const order = i % 2 === 0 ? [await mine(), await theirs()] : [await theirs(), await mine()].reverse();
      await empty(store, "");
      // The first round warms up both, and is not counted.
      if (i === 0) counts.clear();
      else {
        seconds.ours.push(order[0] ?? 0);
        seconds.bare.push(order[1] ?? 0);
      }
    }
    return report({
      counts,
      memory: memory.slice(Math.ceil(rounds / 3)),
      seconds,
      gib: (rounds * packsPerRound * packBytes) / 2 ** 30,
    });
  } finally {
    client.destroy();
    server.stop();
    await rm(folder, { recursive: true, force: true });
  }
};

interface Measured {
  readonly counts: ReadonlyMap<string, number>;
  readonly memory: readonly { readonly gib: number; readonly mib: number }[];
  readonly seconds: { readonly ours: readonly number[]; readonly bare: readonly number[] };
  readonly gib: number;
}

function report({ counts, memory, seconds, gib }: Measured): Record<string, number> {
  const perRoundMB = (packsPerRound * packBytes) / 1e6;
  const ratios = seconds.ours.map((one, i) => (seconds.bare[i] ?? 0) / one).sort((a, b) => a - b);
  const perGiB = (...methods: string[]) => round2(methods.reduce((sum, m) => sum + (counts.get(m) ?? 0), 0) / gib);
  const result = {
    ratioToBareSdk: round2(median(ratios)),
    requestsPerGiB: perGiB("PUT", "POST"),
    headsPerGiB: perGiB("HEAD"),
    uploadMBps: round2(perRoundMB / median(seconds.ours)),
    bareMBps: round2(perRoundMB / median(seconds.bare)),
    ratioLowest: round2(ratios[0] ?? 0),
    ratioHighest: round2(ratios.at(-1) ?? 0),
    rssSlopeMiBPerGiB: round2(slope(memory)),
    rssMiB: round2(memory.at(-1)?.mib ?? 0),
  };
  const rows = [
    ["verified upload", `${result.uploadMBps.toString()} MB/s`],
    ["bare SDK loop", `${result.bareMBps.toString()} MB/s`],
    [
      "ratio, median of rounds",
      `${result.ratioToBareSdk.toString()} (${result.ratioLowest.toString()} to ${result.ratioHighest.toString()})`,
    ],
    ["PUT and POST per GiB", result.requestsPerGiB.toString()],
    ["HEAD per GiB", result.headsPerGiB.toString()],
    ["memory", `${result.rssMiB.toString()} MiB, growing by ${result.rssSlopeMiBPerGiB.toString()} MiB per GiB`],
  ];
  for (const [name = "", value = ""] of rows) console.log(`  ${name.padEnd(24)}${value}`);
  console.log();
  return result;
}

const round2 = (n: number): number => Math.round(n * 100) / 100;
