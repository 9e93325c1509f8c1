// A real S3 server for tests: Ceph's RADOS Gateway from Debian's packages, on loopback, objects in memory.
//
//   node scripts/rgw.mjs install                      the packages, when they are absent (Debian, as root)
//   node scripts/rgw.mjs start [--dir DIR] [--env]    starts one, prints where it is as JSON (or as KEY=VALUE lines)
//   node scripts/rgw.mjs stop DIR                     stops what `start` started and removes DIR
//   node scripts/rgw.mjs run [--dir DIR] -- COMMAND   starts one, runs COMMAND with its address in the environment, stops it
//
// Any number can run beside each other. `run` with HOLDFAST_S3_URL already set uses that server and starts none. With --dir, `run`
// keeps the objects in DIR when it stops and brings them back when it starts there again.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { startCluster, stopCluster } from "./rgw/cluster.mjs";
import { install } from "./rgw/install.mjs";

const usage = "rgw.mjs install | start [--dir DIR] [--env] | stop DIR | run [--dir DIR] -- COMMAND [ARGUMENT…]";
const freshFolder = () => mkdtempSync(join(tmpdir(), "holdfast-rgw-"));

/** What the tests, the benchmarks and the examples look for. */
const environmentOf = (server) => ({
  HOLDFAST_S3_URL: server.endpoint,
  HOLDFAST_S3_BUCKET: server.bucket,
  HOLDFAST_S3_REGION: server.region,
  HOLDFAST_S3_ACCESS_KEY_ID: server.accessKeyId,
  HOLDFAST_S3_SECRET_ACCESS_KEY: server.secretAccessKey,
});

async function start(values) {
  install();
  const server = await startCluster(values.dir === undefined ? freshFolder() : resolve(values.dir), {});
  const lines = Object.entries(environmentOf(server)).map(([name, value]) => `${name}=${value}`);
  console.log(values.env ? [...lines, `HOLDFAST_S3_DIR=${server.dir}`].join("\n") : JSON.stringify(server));
  return 0;
}

async function stop([dir]) {
  if (dir === undefined) throw new Error(`say which: ${usage}`);
  await stopCluster(resolve(dir), { keep: false });
  rmSync(resolve(dir), { recursive: true, force: true });
  return 0;
}

async function runWith(values, [command, ...args]) {
  if (command === undefined) throw new Error(`say what to run: ${usage}`);
  if (process.env.HOLDFAST_S3_URL !== undefined) return runCommand(command, args, {});
  install();
  const keep = values.dir !== undefined;
  const dir = keep ? resolve(values.dir) : freshFolder();
  // From here on a signal ends the command, and with it this program in its own order: nothing stays behind.
  const stopped = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => stopped.abort());
  try {
    const server = await startCluster(dir, { endWithParent: true });
    if (stopped.signal.aborted) return 130;
    return await runCommand(command, args, environmentOf(server));
  } finally {
    await stopCluster(dir, { keep });
    if (!keep) rmSync(dir, { recursive: true, force: true });
  }
}

function runCommand(command, args, env) {
  return new Promise((done, failed) => {
    const child = spawn(command, args, { stdio: "inherit", env: { ...process.env, ...env } });
    // Ctrl-C on a terminal reaches the command by itself; a second one would be taken for impatience.
    const forwarded = process.stdin.isTTY ? ["SIGTERM"] : ["SIGINT", "SIGTERM"];
    for (const signal of forwarded) process.on(signal, () => child.kill(signal));
    child.on("error", failed);
    child.on("close", (code, signal) => done(code ?? (signal === "SIGINT" ? 130 : 1)));
  });
}

try {
  const [verb, ...rest] = process.argv.slice(2);
  const options = { dir: { type: "string" }, env: { type: "boolean", default: false } };
  const { values, positionals } = parseArgs({ args: rest, options, allowPositionals: true });
  const verbs = {
    install,
    start: () => start(values),
    stop: () => stop(positionals),
    run: () => runWith(values, positionals),
  };
  if (!Object.hasOwn(verbs, verb ?? "")) throw new Error(`say what to do: ${usage}`);
  process.exitCode = (await verbs[verb]()) ?? 0;
} catch (error) {
  console.error(`rgw: ${error.message}`);
  process.exitCode = 1;
}
