// Goal: the spool on a real disk under load: its budget, its share of the thread pool, and a backlog. Method: a real directory;
// what lies in it is added up from outside while writers push. What waits for room is refused when the test skips its time.
import { spawn } from "node:child_process";
import { lstatSync, readdirSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { systemClock, type Clock } from "@holdfast/deadline-http";
import { until } from "@holdfast-private/tests-machine";
import { afterEach, beforeEach, expect, it } from "vitest";
import { ErrorLog } from "../../src/error-log.js";
import { codeOf } from "../../src/errors.js";
import { createIds } from "../../src/ids.js";
import { nodeFiles } from "../../src/spool/files.js";
import { poolGate } from "../../src/spool/gate.js";
import { openSpool } from "../../src/spool/open-spool.js";
import type { Spool, SpoolSettings } from "../../src/spool/spool.js";
import { SkippingClock } from "../support/skipping-clock.js";
import { idsIn, record, settings } from "../support/spool.js";

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "holdfast-spool-"));
});
afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

const openHere = (changed: Partial<SpoolSettings>, files = nodeFiles(), clock: Clock = systemClock): Promise<Spool> =>
  openSpool({
    settings: { ...settings, directory, ...changed },
    allowSharedFileSystem: false,
    files,
    clock,
    random: Math.random,
    newId: createIds(clock),
    errors: new ErrorLog(),
  });

/** What the directory takes, at one moment: a file with two names counts once, and nothing of ours runs meanwhile. */
function bytesHere(): number {
  const sizes = new Map<number, number>();
  for (const name of readdirSync(directory)) {
    const found = lstatSync(join(directory, name), { throwIfNoEntry: false });
    // The identity is not part of the budget.
    if (found !== undefined && !name.startsWith("holdfast-spool.json")) sizes.set(found.ino, found.size);
  }
  return [...sizes.values()].reduce((sum, size) => sum + size, 0);
}

it("SP-09 sixteen writers at the limit: the directory stays within maxBytes, refusals are typed, and all admitted records are there", async () => {
  const maxBytes = 2 * 1024 * 1024;
  let peak = 0;
  const files = nodeFiles();
  const weighing: typeof files = {
    ...files,
    open: async (...args) => {
      const file = await files.open(...args);
      const write: typeof file.write = async (...range) => {
        const count = await file.write(...range);
        peak = Math.max(peak, bytesHere());
        return count;
      };
      return { ...file, write };
    },
  };
  const admissionTimeoutMs = 24 * 3_600_000;
  const limits = { maxBytes, maxPackBytes: 256 * 1024, admissionTimeoutMs, maxLingerMs: 50 };
  const clock = new SkippingClock();
  const spool = await openHere(limits, weighing, clock);
  const seen: string[] = [];
  const outcomes = new Set<string | undefined>();
  const drain = async (most: number): Promise<void> => {
    for (const pack of spool.shelf.packs.slice(0, most)) {
      seen.push(...(await idsIn(spool, pack)));
      await spool.shelf.remove(pack);
    }
  };
  const admitted: string[] = [];
  let writing = 16;
  const writers = Array.from({ length: writing }, async (_, writer) => {
    for (let i = 0; i < 40; i += 1) {
      const id = `w${writer}-${i}`;
      const code = await spool.append([record({ id, bytes: 8_000 })]).then(
        () => (admitted.push(id), undefined),
        (error: unknown) => codeOf(error),
      );
      outcomes.add(code);
      if (writer === 0 && i % 20 === 19) await drain(3);
    }
    writing -= 1;
  });
  while (writing > 0) {
    await until("every writer waits for room or is done", () => spool.status().waitingAppends === writing);
    clock.skip(admissionTimeoutMs);
  }
  await Promise.all(writers);
  await spool.seal("manual");
  await drain(Infinity);
  expect(outcomes).toEqual(new Set([undefined, "ADMISSION_TIMEOUT"]));
  expect(peak).toBeLessThanOrEqual(maxBytes);
  expect(spool.status().peakBytes).toBeLessThanOrEqual(maxBytes);
  // The limit was in force: what is reserved counts, however much of it a fast or slow disk has at any one moment.
  expect(spool.status().peakBytes).toBeGreaterThan(maxBytes / 2);
  expect(peak).toBeGreaterThan(0);
  expect(seen.sort()).toEqual(admitted.sort());
  await spool.close();
});

it("SP-10 never has more than two operations in the thread pool, compressing, writing and reading at once", async () => {
  const spool = await openHere({ codec: "gzip", maxBytes: 1 << 30, maxPackBytes: 1 << 20, maxQueuedBytes: 1 << 30 });
  const receipts = await Promise.all(
    Array.from({ length: 64 }, async (_, writer) => {
      const own = [];
      for (let i = 0; i < 10; i += 1)
        own.push(await spool.append([record({ id: `w${writer}-${i}`, bytes: 20_000, codec: "gzip" })]));
      return own;
    }),
  );
  const { signal } = new AbortController();
  const read = () => Promise.all(spool.shelf.packs.slice(0, 4).map((pack) => spool.shelf.isIntact(pack, signal)));
  let writing = true;
  const reading = (async () => {
    while (writing) {
      await read();
      await new Promise((resolve) => setImmediate(resolve));
    }
    await read();
  })();
  await Promise.all(receipts.flat().map((receipt) => receipt.durable()));
  await spool.seal("manual");
  writing = false;
  await reading;
  expect(spool.shelf.packs.length).toBeGreaterThan(5);
  expect(poolGate.peak).toBe(2);
  await spool.close();
});

async function takeOver(packs: number): Promise<void> {
  const first = await openHere({ maxPackRecords: 1, maxBytes: 1 << 30 });
  for (let i = 0; i < packs; i += 100) {
    const batch = Array.from({ length: 100 }, (_, n) => record({ id: `b-${i + n}`, bytes: 200 }));
    await (await first.append(batch)).durable();
  }
  await first.close();
  const script = fileURLToPath(new URL("../support/backlog.ts", import.meta.url));
  const command = `ulimit -n 64 && exec "${process.execPath}" --max-old-space-size=96 --import tsx --conditions=@holdfast/source "${script}" "${directory}"`;
  const child = spawn("bash", ["-c", command], { cwd: fileURLToPath(new URL("../../../..", import.meta.url)) });
  let out = "";
  child.stdout.on("data", (text: Buffer) => (out += text.toString()));
  child.stderr.on("data", (text: Buffer) => (out += text.toString()));
  const code = await new Promise((resolve) => child.once("exit", resolve));
  expect([code, out.trim()]).toEqual([0, `${packs} packs in order`]);
}

it("takes over a backlog of 200 packs with 64 descriptors and little memory, oldest first", () => takeOver(200));
it("takes over a backlog of 1500 packs so, too", { tags: ["slow"] }, () => takeOver(1500));
