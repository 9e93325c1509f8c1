// What a run of tests leaves behind: looked for by the run itself, at its end, also after Ctrl-C or a failure.
//
// A run has an id in its environment (HOLDFAST_RUN), which every process that it starts inherits, and a temporary directory (TMPDIR) of
// its own. What has the id and still runs, what lies in the directory, and what is mounted under it is left behind. A port is
// held by a process, so no process is left with one. Processes and mounts are looked for on Linux only, where /proc shows them.
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/** Caches of the tools, which they keep in the temporary directory for the next process. */
const cache = /^(tsx-|node-compile-cache|node-jiti|jiti)/;

/** For so long processes are waited for without a word. */
const quietMs = 2_000;
/** What was killed is gone at once, unless the disk holds it. */
const killedMs = 10_000;

/**
 * Runs `fn`, which returns an exit code, in a run of its own; then ends what is left of it and names it, also when `fn` throws. Returns that
 * exit code, or 1 when something was left though the run ended by itself, or 130 after SIGINT or SIGTERM, which abort the signal that `fn` is given.
 * A run in a run has the outer one's id in its own, so both find what it leaves. `graceMs`: how long what was told to end may take
 * to end, since a busy machine needs some of it; a second signal cuts it short.
 */
export async function leavingNothing(fn, { graceMs = 30_000 } = {}) {
  const outer = { id: process.env.HOLDFAST_RUN, tmp: process.env.TMPDIR };
  const id = `${outer.id === undefined ? "" : `${outer.id}/`}${randomBytes(6).toString("hex")}`;
  mkdirSync(tmpdir(), { recursive: true });
  const run = { id, directory: mkdtempSync(join(tmpdir(), "hf-")) };
  process.env.HOLDFAST_RUN = id;
  process.env.TMPDIR = run.directory;
  const [stopped, hurried] = [new AbortController(), new AbortController()];
  const onSignal = () => (stopped.signal.aborted ? hurried : stopped).abort();
  process.on("SIGINT", onSignal).on("SIGTERM", onSignal);
  let clean = true;
  try {
    const code = await fn(stopped.signal).finally(async () => {
      clean = await cleanUp(run, graceMs, hurried.signal);
    });
    if (stopped.signal.aborted) return 130;
    return code === 0 && !clean ? 1 : code;
  } finally {
    process.off("SIGINT", onSignal).off("SIGTERM", onSignal);
    for (const [name, value] of [
      ["HOLDFAST_RUN", outer.id],
      ["TMPDIR", outer.tmp],
    ]) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  }
}

/** Waits for what is about to end, ends the rest, names and removes what was left; true when that was nothing. */
async function cleanUp({ id, directory }, graceMs, hurried) {
  const running = () => processesOf(id, directory);
  const allGone = async (ms, signal) => {
    const end = performance.now() + ms;
    while (running().length > 0 && performance.now() < end && !signal?.aborted) await sleep(50);
  };
  await allGone(Math.min(graceMs, quietMs), hurried);
  if (running().length > 0 && graceMs > quietMs && !hurried.aborted) {
    console.error(`waiting for ${running().length} processes of this run to end, ${graceMs / 1_000} s at most`);
    await allGone(graceMs - quietMs, hurried);
  }
  const processes = running();
  for (const { pid } of processes) kill(pid);
  // What is being killed may still write into the directory.
  await allGone(killedMs);
  const mounts = mountsUnder(directory);
  const files = readdirSync(directory).filter((name) => !cache.test(name));
  for (const { pid, command } of processes)
    console.error(`left behind by this run, and ended: process ${pid}: ${command}`);
  // What is mounted there may be another program's data, so nothing of the directory is removed.
  for (const mount of mounts) console.error(`left behind by this run, and not removed: mount ${mount}`);
  const fate = mounts.length > 0 ? "not removed" : "removed";
  for (const name of files) console.error(`left behind by this run, and ${fate}: ${join(directory, name)}`);
  if (mounts.length === 0) rmSync(directory, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  return processes.length + mounts.length + files.length === 0;
}

function kill(pid) {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended by itself meanwhile.
  }
}

/** Processes, this one excluded, that have the run's id in their environment or work in its directory. */
function processesOf(id, directory) {
  if (!existsSync("/proc/self/environ")) return [];
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .filter((pid) => belongs(pid, id, directory))
    .map((pid) => ({ pid: Number(pid), command: commandOf(pid) }));
}

function belongs(pid, id, directory) {
  try {
    if (readlinkSync(`/proc/${pid}/cwd`).startsWith(directory)) return true;
    const variables = readFileSync(`/proc/${pid}/environ`, "latin1").split("\0");
    return variables.some((one) => one === `HOLDFAST_RUN=${id}` || one.startsWith(`HOLDFAST_RUN=${id}/`));
  } catch {
    // Gone, or another user's.
    return false;
  }
}

function commandOf(pid) {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "latin1").replaceAll("\0", " ").trim().slice(0, 200);
  } catch {
    return "(ended)";
  }
}

function mountsUnder(directory) {
  if (!existsSync("/proc/self/mountinfo")) return [];
  return readFileSync("/proc/self/mountinfo", "utf8")
    .split("\n")
    .map((line) => line.split(" ")[4] ?? "")
    .filter((mount) => mount.startsWith(`${directory}/`));
}
