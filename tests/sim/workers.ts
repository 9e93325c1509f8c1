import { execFileSync, fork } from "node:child_process";
import { addCoverage, emptyCoverage } from "./checkers/coverage.js";
import type { Failure, SliceResult } from "./slice.js";

/** What one worker is to do: seeds `from`, `from + step`, … below `end`. */
export interface Job {
  readonly from: number;
  readonly end: number;
  readonly step: number;
  readonly repeatEvery: number;
}

/** Where the seeds are run. */
export interface Workers {
  /** The bundle of worker.ts. */
  readonly file: string;
  readonly count: number;
  /** The Node that runs it. */
  readonly execPath: string;
}

/** The executable of a Node release, by npx; this process's own when none is named. */
export function nodeOf(release: string | undefined): string {
  if (release === undefined) return process.execPath;
  if (!/^\d+(\.\d+){0,2}$/.test(release))
    throw new Error(`--node is ${JSON.stringify(release)}; give a release like 24`);
  const asked = ["--yes", `node@${release}`, "-p", "process.execPath"];
  return execFileSync("npx", asked, { encoding: "utf8" }).trim();
}

function runWorker({ file, execPath }: Workers, job: Job): Promise<SliceResult> {
  return new Promise((resolve, reject) => {
    const child = fork(file, { execArgv: [], execPath });
    let result: SliceResult | null = null;
    child.once("message", (message) => (result = message as SliceResult));
    child.once("error", reject);
    child.once("exit", (code) => {
      if (result !== null) resolve(result);
      else reject(new Error(`a worker ended with code ${code} and no result`));
    });
    child.send(job);
  });
}

/** Several slices as one. */
export function sumOf(results: readonly SliceResult[]): SliceResult {
  const coverage = emptyCoverage();
  const failures: Failure[] = [];
  let [seeds, turns, virtualMs, cpuMs] = [0, 0, 0, 0];
  for (const result of results) {
    seeds += result.seeds;
    turns += result.turns;
    virtualMs += result.virtualMs;
    cpuMs += result.cpuMs;
    failures.push(...result.failures);
    addCoverage(coverage, result.coverage);
  }
  failures.sort((a, b) => a.seed - b.seed);
  const node = [...new Set(results.map((result) => result.node))].join(", ");
  return { seeds, turns, virtualMs, cpuMs, node, failures, coverage };
}

/** Spreads seeds over processes. */
export async function runSeeds(workers: Workers, from: number, count: number): Promise<SliceResult> {
  const jobs = Array.from({ length: workers.count }, (_, n) => ({
    from: from + n,
    end: from + count,
    step: workers.count,
    repeatEvery: 50,
  }));
  return sumOf(await Promise.all(jobs.map((job) => runWorker(workers, job))));
}
