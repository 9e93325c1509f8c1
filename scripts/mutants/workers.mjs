// The processes that run tests for the mutants: two, one for each core. One whose test blocks its process is ended, and another takes its place.
import { fork } from "node:child_process";
import { closeSync, mkdirSync, openSync, rmSync } from "node:fs";
import { once } from "node:events";
import { join } from "node:path";
import { root } from "../shell.mjs";

const folder = join(root, "temp", "mutants");
const atOnce = 2;

/**
 * `hangMs`: a condition that does not come true (`until` of tests/machine) fails its test by name. `testMs`: a test that hangs otherwise is
 * ended by vitest. `processMs`: a module that hangs while it loads is ended with its process. Tests with an engine take their time on
 * two cores.
 */
const limits = {
  quick: { hangMs: 10_000, testMs: 20_000, processMs: 90_000 },
  live: { hangMs: 30_000, testMs: 120_000, processMs: 300_000 },
};
const kindOf = (project) => (project === "live" ? "live" : "quick");

/** Vitest has no word for it but the time that the test took. */
export const isTimeout = (project, { ms }) => ms >= limits[kindOf(project)].testMs;

/** The path of a worker's log, from the repository's root. */
const logOf = (name) => join("temp", "mutants", `${name}.log`);

class Worker {
  #answered;
  #child;

  constructor(name, { testMs, hangMs }) {
    const log = openSync(join(root, logOf(name)), "a");
    this.#child = fork(join(import.meta.dirname, "worker.mjs"), [String(testMs), String(hangMs)], {
      cwd: root,
      stdio: ["ignore", log, log, "ipc"],
      // A group of its own, so that the processes which vitest started end with it.
      detached: true,
    });
    closeSync(log);
    this.#child.on("message", ({ result }) => this.#answered?.(result));
    this.ended = once(this.#child, "exit").then(() => this.#answered?.(null));
  }

  /** Runs one job; null when the process ended, by itself or because it took too long. */
  async run(job, processMs) {
    const timer = setTimeout(() => process.kill(-this.#child.pid, "SIGKILL"), processMs);
    const answer = new Promise((resolve) => (this.#answered = resolve));
    // The error of a process that is not there comes as its end.
    this.#child.send(job, () => undefined);
    const result = await answer;
    clearTimeout(timer);
    return result;
  }

  async stop() {
    this.#child.disconnect();
    await this.ended;
  }
}

/** Takes jobs from the list until none is left. */
async function lane(name, bounds, list, onEnd) {
  let worker = null;
  for (let job = list.shift(); job !== undefined; job = list.shift()) {
    worker ??= new Worker(name, bounds);
    const since = performance.now();
    const result = await worker.run(job, bounds.processMs);
    if (result === null) worker = null;
    onEnd(job, { result, log: logOf(name), seconds: (performance.now() - since) / 1_000 });
  }
  await worker?.stop();
}

/** Runs the jobs, so many at once. `onEnd` is called as each ends, with `{ result, log, seconds }`; a result of null is a process that ended. */
export async function runJobs(jobs, onEnd) {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (const kind of ["quick", "live"]) {
    const list = jobs.filter(({ project }) => kindOf(project) === kind);
    const lanes = Array.from({ length: atOnce }, (_, n) => lane(`${kind}-${n + 1}`, limits[kind], list, onEnd));
    await Promise.all(lanes);
  }
}
