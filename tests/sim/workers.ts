import { fork } from "node:child_process";
import { bundle } from "./bundle.js";
import { addCoverage, emptyCoverage } from "./checkers/coverage.js";
import type { Failure, SliceResult } from "./slice.js";

/** What one worker is to do: seeds `from`, `from + step`, … below `end`. */
export interface Job {
  readonly from: number;
  readonly end: number;
  readonly step: number;
  readonly repeatEvery: number;
}

function runWorker(file: string, job: Job): Promise<SliceResult> {
  return new Promise((resolve, reject) => {
    const child = fork(file, { execArgv: [] });
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

/** Spreads seeds over processes. */
export async function runSeeds(from: number, count: number, workers: number): Promise<SliceResult> {
  const file = await bundle("worker.ts", "worker");
  const jobs = Array.from({ length: workers }, (_, n) => ({
    from: from + n,
    end: from + count,
    step: workers,
    repeatEvery: 50,
  }));
  const results = await Promise.all(jobs.map((job) => runWorker(file, job)));
  const coverage = emptyCoverage();
  const failures: Failure[] = [];
  let [seeds, turns, virtualMs] = [0, 0, 0];
  for (const result of results) {
    seeds += result.seeds;
    turns += result.turns;
    virtualMs += result.virtualMs;
    failures.push(...result.failures);
    addCoverage(coverage, result.coverage);
  }
  failures.sort((a, b) => a.seed - b.seed);
  return { seeds, turns, virtualMs, failures, coverage };
}
