import { fork, type ChildProcess } from "node:child_process";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

/** Threads of the engine's process beyond one per running query: for kills, for spooling bodies, for new sessions. */
const spareThreads = 6;

/**
 * Starts the process that holds the engine. From the built package its entry is plain JavaScript. From sources, which only this workspace's
 * own tests and examples run, it is TypeScript and goes through tsx; so tsx is no dependency of the package.
 */
export function spawnChild(o: {
  readonly maxConcurrentQueries: number;
  /** Goes with the process. */
  readonly temporaryDirectory: string | null;
}): ChildProcess {
  const own = fileURLToPath(import.meta.url);
  const fromSource = own.endsWith(".ts");
  const execArgv: string[] = [];
  if (fromSource) {
    const tsx = dirname(createRequire(import.meta.url).resolve("tsx/package.json"));
    execArgv.push("--import", pathToFileURL(join(tsx, "dist", "loader.mjs")).href);
  }
  return fork(
    join(dirname(own), fromSource ? "child.ts" : "child.js"),
    o.temporaryDirectory === null ? [] : [o.temporaryDirectory],
    {
      execArgv,
      // Each running query holds a thread of the pool for as long as it runs, and Node has four.
      env: { ...process.env, UV_THREADPOOL_SIZE: String(o.maxConcurrentQueries + spareThreads) },
      stdio: ["ignore", "ignore", "pipe", "ipc"],
    },
  );
}
