// @ts-check
// Capture policies in git. Makes a repository and starts two writers, each a process with a clone of its own. Both read the same revision of
// the policy and change it. One wins the race; the other gets a conflict with the winner's content, and decides what to do.
import { gitStore } from "@holdfast/storage-git";
import { execFileSync, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const folder = mkdtempSync(join(tmpdir(), "git-config-"));
const remote = join(folder, "policies.git"); // yours is on a server
execFileSync("git", ["init", "--quiet", "--bare", "--initial-branch=main", remote]);

/** @type {import("node:child_process").ChildProcess[]} */
const writers = [];
async function start(/** @type {string} */ name) {
  const writer = fork(fileURLToPath(new URL("./writer.mjs", import.meta.url)), [remote, join(folder, name), name]);
  writers.push(writer);
  await once(writer, "message"); // it has read the policy
  return writer;
}

/** Lets a writer write, and waits until it has ended. */
async function go(/** @type {import("node:child_process").ChildProcess} */ writer) {
  const ended = once(writer, "exit");
  writer.send("write");
  const [code] = await ended;
  if (code !== 0) throw new Error(`a writer ended with ${code}`);
}

const store = gitStore({ remote, directory: join(folder, "index") });
try {
  const signal = AbortSignal.timeout(120_000);
  console.log("1. The first policy");
  await store.batch(
    "the first policy",
    (batch) =>
      batch.write(
        "capture/policy.json",
        Buffer.from(`${JSON.stringify({ sampleRate: 0.1, drop: ["authorization"] }, null, 2)}\n`),
      ),
    { signal },
  );

  console.log("2. Two writers read it");
  const [privacy, operations] = [await start("privacy"), await start("operations")];

  console.log("3. privacy writes first");
  await go(privacy);

  console.log("4. operations writes, on the revision that it read");
  await go(operations);

  const { bytes } = await store.read("capture/policy.json", { signal });
  const policy = JSON.parse(Buffer.from(bytes ?? []).toString());
  const log = execFileSync("git", ["log", "--format=%h %s", "main"], { cwd: remote, encoding: "utf8" })
    .trim()
    .split("\n");
  console.log(`\n${log.join("\n")}\n${JSON.stringify(policy)}\n`);
  if (policy.sampleRate !== 0.05 || !policy.drop.includes("cookie")) throw new Error("a change was lost");
  console.log(`Done: ${log.length} commits, both changes are in the policy.`);
} finally {
  for (const writer of writers) writer.kill("SIGTERM");
  await store[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
}
