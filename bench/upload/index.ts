// Verified uploads of 64 MiB packs, beside a loop that a user would write with the bare SDK: the same server, files, number at once and
// checksum. Rounds of one and of the other take turns, so that both meet the same load on the machine; what they stored is deleted
// between the rounds, unmeasured. Timings are reported, never judged.
import { randomBytes, randomUUID } from "node:crypto";
import { mkdtemp, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Body, createLimiter, type ObjectStore, putVerified } from "@holdfast/object-store";
import type { Benchmark } from "../benchmark.js";
import { openGcs } from "./gcs.js";
import { counting, restingMemory, type MemoryPoint } from "./measure.js";
import { report, type Measured } from "./report.js";
import { openS3 } from "./s3.js";
import { reading, type OpenTarget, type Target, type Upload } from "./target.js";

const MiB = 1 << 20;
const packBytes = 64 * MiB;
const packsPerRound = 8; // half a GiB
const roundBytes = packsPerRound * packBytes;
const atOnce = 4;

const targets: Readonly<Record<string, OpenTarget>> = { s3: openS3, gcs: openGcs };

async function writePacks(folder: string): Promise<string[]> {
  const paths = Array.from({ length: atOnce }, (_, i) => join(folder, `pack${i.toString()}`));
  for (const path of paths) {
    const file = await open(path, "w");
    for (let at = 0; at < packBytes; at += MiB) await file.write(randomBytes(MiB));
    await file.close();
  }
  return paths;
}

function ours(store: ObjectStore): Upload {
  return async (key, path) => {
    const body: Body = { size: packBytes, open: () => reading(path) };
    const result = await putVerified(store, key, body, { writeId: key, signal: AbortSignal.timeout(120_000) });
    if (result.outcome !== "created") throw new Error(`an upload ended as ${result.outcome}`);
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

async function empty(store: ObjectStore): Promise<void> {
  const signal = AbortSignal.timeout(60_000);
  for await (const { key } of store.list({ prefix: "", signal })) await store.delete(key, { signal });
}

async function measure({ store, bare }: Target, paths: readonly string[], rounds: number): Promise<Measured> {
  const counts = new Map<string, number>();
  const memory: MemoryPoint[] = [];
  const seconds = { ours: [] as number[], bare: [] as number[] };
  for (let i = 0; i <= rounds; i += 1) {
    const mine = async () => {
      const took = await counting(counts, () => round(ours(store), `ours-${i.toString()}/`, paths));
      memory.push({ gib: ((i + 1) * roundBytes) / 2 ** 30, mib: restingMemory() });
      return took;
    };
    const theirs = () => round(bare, `bare-${i.toString()}/`, paths);
    const order = i % 2 === 0 ? [await mine(), await theirs()] : [await theirs(), await mine()].reverse();
    await empty(store);
    // The first round warms up both, and is not counted.
    if (i === 0) counts.clear();
    else {
      seconds.ours.push(order[0] ?? 0);
      seconds.bare.push(order[1] ?? 0);
    }
  }
  return { counts, memory: memory.slice(Math.ceil(rounds / 3)), seconds, roundBytes };
}

export const upload: Benchmark = async ({ quick, directory, store = "s3" }) => {
  const openTarget = targets[store];
  if (openTarget === undefined) throw new Error(`unknown store ${store}; known: ${Object.keys(targets).join(", ")}`);
  const rounds = quick ? 3 : 13;
  const folder = await mkdtemp(join(directory ?? tmpdir(), "holdfast-bench-"));
  try {
    const target = openTarget(`bench-${randomUUID()}/`, packBytes);
    try {
      const paths = await writePacks(folder);
      console.log(
        `upload: ${rounds.toString()} rounds of ${packsPerRound.toString()} packs of 64 MiB each, ${atOnce.toString()} at once, to ${target.endpoint} (${store}), Node ${process.version}\n`,
      );
      return report(await measure(target, paths, rounds));
    } finally {
      target.stop();
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
};
