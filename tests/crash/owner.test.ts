// Goal: the owner of a spool directory is known without process ids and outlives nothing. Method: real processes that are
// killed, stopped, put into process namespaces where each sees itself as pid 1, and that leave children behind.
import { spawnSync, type ChildProcess } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { OwnerReport } from "./support/owner.js";
import { exited, Scripts } from "./support/scripts.js";

let scripts: Scripts;
let directory: string;
const running: ChildProcess[] = [];
beforeAll(async () => {
  scripts = await Scripts.build("owner");
});
afterAll(() => scripts[Symbol.asyncDispose]());
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "holdfast-owner-"));
});
afterEach(async () => {
  for (const child of running.splice(0)) {
    child.kill("SIGKILL");
    await exited(child);
  }
  await rm(directory, { recursive: true, force: true });
});

function ask(child: ChildProcess, withChild = false): Promise<OwnerReport> {
  running.push(child);
  const answer = new Promise<OwnerReport>((resolve, reject) => {
    child.once("message", (report) => resolve(report as OwnerReport));
    child.once("exit", () => reject(new Error("the taker ended without a word")));
  });
  child.send({ directory, withChild });
  return answer;
}
const taker = (): ChildProcess => scripts.start("owner").child;

const canUnshare = spawnSync("unshare", ["--pid", "--fork", "true"]).status === 0;

/** A taker in a process namespace of its own, where it is pid 1. IPC goes through the file descriptor that fork sets up. */
const pidOne = (): ChildProcess =>
  scripts.start("owner", { under: ["unshare", "--pid", "--fork", "--kill-child"] }).child;

/** Kills a taker itself, and not `unshare` around it, which ends once the taker is gone. */
async function killInside(child: ChildProcess): Promise<void> {
  const inside = Number(readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, "utf8"));
  expect(inside).toBeGreaterThan(0);
  process.kill(inside, "SIGKILL");
  await exited(child);
}

describe("SP-08 one owner per spool directory", () => {
  it("SP-08 a second process is refused while the owner lives, stopped or not, and takes over once it is killed", async () => {
    const owner = taker();
    expect(await ask(owner)).toMatchObject({ owns: true });
    expect(await ask(taker())).toMatchObject({ owns: false, code: "SPOOL_IN_USE" });
    owner.kill("SIGSTOP");
    expect(await ask(taker())).toMatchObject({ owns: false, code: "SPOOL_IN_USE" });
    owner.kill("SIGKILL");
    await exited(owner);
    expect(await ask(taker())).toMatchObject({ owns: true });
  });

  it("SP-08 a child process that outlives its owner does not own the directory", async () => {
    const owner = taker();
    const { owns, childPid } = await ask(owner, true);
    expect(owns).toBe(true);
    owner.kill("SIGKILL");
    await exited(owner);
    try {
      expect(process.kill(childPid!, 0)).toBe(true);
      expect(await ask(taker())).toMatchObject({ owns: true });
    } finally {
      process.kill(childPid!, "SIGKILL");
    }
  });

  it.runIf(canUnshare)(
    "SP-08 two processes that both see themselves as pid 1: one owns, and when it is killed the next",
    async () => {
      const [first, second] = [pidOne(), pidOne()];
      expect(await ask(first)).toMatchObject({ owns: true, pid: 1 });
      expect(await ask(second)).toMatchObject({ owns: false, pid: 1, code: "SPOOL_IN_USE" });
      await killInside(first);
      expect(await ask(pidOne())).toMatchObject({ owns: true, pid: 1 });
    },
  );

  it("SP-08 six processes at once: never more than one owns", async () => {
    const reports = await Promise.all(Array.from({ length: 6 }, () => ask(taker())));
    expect(reports.filter(({ owns }) => owns).length).toBeLessThanOrEqual(1);
    for (const child of running) child.kill("SIGKILL");
    await Promise.all(running.map(exited));
    expect(await ask(taker())).toMatchObject({ owns: true });
  });
});
