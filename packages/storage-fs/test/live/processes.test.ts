// Goal: what one process alone cannot show: the race for a name, a killed writer, a directory of somebody else, a full file. Method: real
// processes on a real file system; what happened is read from the directory and from what they say.
import { spawn, type ChildProcess } from "node:child_process";
import { chmod, mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath, pathToFileURL } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";
import { fsStore } from "@holdfast/storage-fs";

const open = new AbortController().signal;
const worker = fileURLToPath(new URL("worker.ts", import.meta.url));
const tsx = pathToFileURL(createRequire(import.meta.url).resolve("tsx")).href;
const conditions = process.env["HOLDFAST_TEST_TARGET"] === "dist" ? [] : ["--conditions=@holdfast/source"];

type Worker = { readonly child: ChildProcess; line(): Promise<unknown>; readonly exited: Promise<void> };

function start(args: readonly string[], shellPrefix = ""): Worker {
  const command = [process.execPath, ...conditions, "--import", tsx, worker, ...args];
  const child = spawn("sh", ["-c", `${shellPrefix} exec "$@"`, "sh", ...command], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  onTestFinished(() => void child.kill("SIGKILL"));
  const line = async (): Promise<unknown> => {
    const next = await lines.next();
    if (next.done === true) throw new Error(`the worker ended without an answer: ${args.join(" ")}`);
    return JSON.parse(next.value) as unknown;
  };
  return { child, line, exited };
}

async function freshDirectory(): Promise<string> {
  const above = await mkdtemp(join(tmpdir(), "holdfast-fs-live-"));
  await chmod(above, 0o755);
  onTestFinished(() => rm(above, { recursive: true, force: true }));
  return join(above, "store");
}

describe("two processes", () => {
  // Red when `create` looks first and then renames. HOLDFAST_RACE_KEYS=10000 races for as many keys.
  const keyCount = Number(process.env["HOLDFAST_RACE_KEYS"] ?? 300);
  it("race to create: each key has exactly one winner, who knows it also when its answer was lost", async () => {
    const directory = await freshDirectory();
    const workers = [start(["race", directory]), start(["race", directory])];
    for (const one of workers) expect(await one.line()).toBe("ready");
    const winners = new Map<number, number>();
    const wins: number[] = [0, 0];
    const perRound = 10;
    // A run in which one of them came too late for every key would show nothing.
    let round = 0;
    for (; round * perRound < keyCount || Math.min(...wins) === 0; round++) {
      const keys = Array.from({ length: perRound }, (_, i) => round * perRound + i);
      workers[0]!.child.stdin?.write(`${keys.join(" ")}\n`);
      // Side by side for each key, or one up and the other down, so that they meet in the middle and neither is first everywhere.
      workers[1]!.child.stdin?.write(`${(round % 2 === 0 ? keys : keys.reverse()).join(" ")}\n`);
      for (const [n, one] of workers.entries()) {
        const { pid, won, strange } = (await one.line()) as { pid: number; won: number[]; strange: number };
        expect(strange).toBe(0);
        wins[n]! += won.length;
        for (const i of won) winners.set(i, pid);
      }
    }
    expect(winners.size, "each key has a winner").toBe(round * perRound);
    expect(wins[0]! + wins[1]!, "no key has two").toBe(round * perRound);
    const store = fsStore({ directory });
    for (const [i, pid] of winners) {
      const { bytes, info } = await store.get(`race/${i}`, { signal: open });
      expect(Buffer.from(bytes).toString()).toBe(`${pid} `.repeat(200));
      expect(info.metadata).toEqual({ by: String(pid), "holdfast-write-id": `${pid}-${i}` });
    }
    expect(await readdir(join(directory, ".staging"))).toEqual([]);
  });

  it("a writer killed in the middle of a put leaves no object, and the key is free", async () => {
    const directory = await freshDirectory();
    const one = start(["stall", directory]);
    expect(await one.line()).toBe("half");
    one.child.kill("SIGKILL");
    await one.exited;
    const store = fsStore({ directory });
    expect(await store.head("k", { signal: open })).toBeNull();
    for await (const info of store.list({ prefix: "", signal: open })) expect(info.key).toBe("none");
    const result = await store.put("k", new Uint8Array(3), { mode: "create", signal: open });
    expect(result.outcome).toBe("created");
  });
});

describe("limits of the system", () => {
  it("a directory that this user may not write is ACCESS_DENIED, and the message says what to do", async () => {
    const directory = await freshDirectory();
    await mkdir(directory, { mode: 0o555 });
    const answer = (await start(["as-nobody", directory, "10"]).line()) as { outcome: string; message: string };
    expect(answer.outcome).toBe("failed");
    expect(answer.message).toMatch(/^\[ACCESS_DENIED\] mkdir .*\(EACCES\): give user \d+ the right to read and write/);
    expect(answer.message).toContain(directory);
  });

  it("a file that grows over the process limit is TOO_LARGE, and nothing of it stays", async () => {
    const directory = await freshDirectory();
    // 64 blocks of 512 bytes: the write that crosses the limit is short without an error, and the next one fails.
    const answer = (await start(["put", directory, String(1 << 20)], "ulimit -f 64;").line()) as {
      outcome: string;
      message: string;
    };
    expect(answer.outcome).toBe("failed");
    expect(answer.message).toMatch(/^\[TOO_LARGE\] write .*\(EFBIG\)/);
    expect(await readdir(join(directory, ".staging"))).toEqual([]);
    expect(await fsStore({ directory }).head("k", { signal: open })).toBeNull();
  });
});
