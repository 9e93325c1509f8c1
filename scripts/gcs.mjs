// A Google Cloud Storage for the time of one command: testkit's fake, on loopback, in a process of its own, with its objects in memory.
//
//   node scripts/gcs.mjs run -- COMMAND   starts one, runs COMMAND with its address in the environment, stops it
//
// It is a fake made for tests: its objects are gone when the command ends. `run` with STORAGE_EMULATOR_HOST already set uses that emulator, makes
// a bucket there unless HOLDFAST_GCS_BUCKET names one, and starts none. The packages have to be built.
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { parseArgs } from "node:util";

const usage = "gcs.mjs run -- COMMAND [ARGUMENT…]";

/** Starts the fake; its address and how to stop it. */
async function startFake() {
  const { gcsObjects, startFaultServer } = await import("../packages/testkit/dist/index.js");
  const { answer } = gcsObjects();
  const server = await startFaultServer({
    otherwise(request) {
      // The server's log keeps the bytes of every request. Nothing reads it here, and a benchmark sends gigabytes.
      for (const log of [server.received, server.unmatched]) log.splice(0);
      return answer(request);
    },
  });
  return { url: server.url, stop: () => server[Symbol.asyncDispose]() };
}

/** The emulator that STORAGE_EMULATOR_HOST names. */
const namedEmulator = (host) => ({
  url: (/^https?:\/\//.test(host) ? host : `http://${host}`).replace(/\/+$/, ""),
  stop: () => undefined,
});

async function makeBucket(url, name) {
  const answer = await fetch(`${url}/storage/v1/b?project=test`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ name }),
  });
  if (answer.ok) return;
  throw new Error(`${url} makes no bucket: ${answer.status} ${await answer.text()}; name one in HOLDFAST_GCS_BUCKET`);
}

async function runWith([command, ...args]) {
  if (command === undefined) throw new Error(`say what to run: ${usage}`);
  const { STORAGE_EMULATOR_HOST: host, HOLDFAST_GCS_BUCKET: given } = process.env;
  const bucket = given ?? `holdfast-${randomUUID().slice(0, 8)}`;
  const server = host === undefined ? await startFake() : namedEmulator(host);
  try {
    // The fake has every bucket.
    if (host !== undefined && given === undefined) await makeBucket(server.url, bucket);
    return await runCommand(command, args, { STORAGE_EMULATOR_HOST: server.url, HOLDFAST_GCS_BUCKET: bucket });
  } finally {
    await server.stop();
  }
}

function runCommand(command, args, env) {
  return new Promise((done, failed) => {
    const child = spawn(command, args, { stdio: "inherit", env: { ...process.env, ...env } });
    // A signal ends the command, and with it this program. Ctrl-C on a terminal reaches the command by itself.
    process.on("SIGINT", () => process.stdin.isTTY || child.kill("SIGINT"));
    process.on("SIGTERM", () => child.kill("SIGTERM"));
    child.on("error", failed);
    child.on("close", (code, signal) => done(code ?? (signal === "SIGINT" ? 130 : 1)));
  });
}

try {
  const [verb, ...rest] = process.argv.slice(2);
  const { positionals } = parseArgs({ args: rest, options: {}, allowPositionals: true });
  if (verb !== "run") throw new Error(`say what to do: ${usage}`);
  process.exitCode = await runWith(positionals);
} catch (error) {
  console.error(`gcs: ${error.message}`);
  process.exitCode = 1;
}
