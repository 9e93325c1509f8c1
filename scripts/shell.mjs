// Running other programs: the one place where root commands start processes.
import { spawn, spawnSync } from "node:child_process";
import { createWriteStream } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** The repository's root folder. */
export const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** pnpm 12.4.2 runs on Node 20 and is fetched by npx, so that only Node and npm have to be on the machine. */
export const pnpm = ["npx", "--yes", "pnpm@12.4.2"];

const environment = (extra) => ({ ...process.env, TURBO_TELEMETRY_DISABLED: "1", DO_NOT_TRACK: "1", ...extra });

/** Runs a program in the foreground, its output on this terminal; answers its exit code. */
export function run(command, args, options = {}) {
  const { env, cwd = root, logFile } = options;
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      cwd,
      env: environment(env),
      stdio: logFile ? ["ignore", "pipe", "pipe"] : "inherit",
    });
    if (logFile) {
      const log = createWriteStream(logFile, { flags: "a" });
      child.stdout.pipe(log, { end: false });
      child.stderr.pipe(log, { end: false });
      child.on("close", () => log.end());
    }
    // Ctrl-C on a terminal reaches the program by itself; a second one would be taken for impatience.
    const forward = (signal) => (signal === "SIGINT" && process.stdin.isTTY ? undefined : child.kill(signal));
    process.on("SIGINT", forward).on("SIGTERM", forward);
    child.on("error", reject);
    child.on("close", (code, signal) => {
      process.off("SIGINT", forward).off("SIGTERM", forward);
      resolve(code ?? (signal === "SIGINT" ? 130 : 1));
    });
  });
}

/** Runs a program and answers its standard output; throws with both outputs when it fails. */
export function capture(command, args, options = {}) {
  const done = spawnSync(command, args, {
    cwd: options.cwd ?? root,
    env: environment(options.env),
    encoding: "utf8",
    maxBuffer: 256 * 1024 * 1024,
  });
  if (done.status !== 0) {
    throw new Error(`${command} ${args.join(" ")} ended with ${done.status}\n${done.stdout}\n${done.stderr}`);
  }
  return done.stdout;
}

/** Path of a tool that the workspace has installed. */
export const bin = (name) => join(root, "node_modules", ".bin", name);
