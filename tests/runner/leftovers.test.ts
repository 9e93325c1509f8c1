// Goal: a run of tests that leaves a process, a file or a directory behind says so, fails and removes it, however it ended. Method: runs in
// processes of their own, by the same function as the root commands; what they left is looked for from here.
import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { until } from "@holdfast-private/tests-machine";
import { expect, it } from "vitest";

const leftovers = fileURLToPath(new URL("../../scripts/test/leftovers.mjs", import.meta.url));

interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly errors: string;
}

/** Starts `leavingNothing` around a function's body, in a process of its own with a short grace. */
function start(body: string) {
  const source = `
    import { spawn } from "node:child_process";
    import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
    import { tmpdir } from "node:os";
    import { join } from "node:path";
    import { leavingNothing } from ${JSON.stringify(leftovers)};
    const say = (what) => process.stdout.write(JSON.stringify(what) + "\\n");
    const sleeper = (o = {}) => {
      const options = { detached: true, stdio: "ignore", ...o };
      const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], options);
      child.unref();
      return child.pid;
    };
    process.exitCode = await leavingNothing(async (signal) => { ${body} }, { graceMs: 100 });
  `;
  const child = spawn(process.execPath, ["--input-type=module", "-e", source], { stdio: ["ignore", "pipe", "pipe"] });
  let [out, errors] = ["", ""];
  child.stdout.on("data", (text: Buffer) => (out += text.toString()));
  child.stderr.on("data", (text: Buffer) => (errors += text.toString()));
  const ended = new Promise<Ended>((resolve) => child.once("close", (code) => resolve({ code, out, errors })));
  return { child, ended, out: () => out };
}

/** Ended, or ended and not yet reaped. */
function isGone(pid: number): boolean {
  try {
    return / Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return true;
  }
}

it("a run that leaves nothing keeps its exit code, and its directory is gone", async () => {
  const { code, out, errors } = await start(`say(tmpdir()); writeFileSync(join(tmpdir(), "tsx-0"), ""); return 7;`)
    .ended;
  expect([code, errors]).toEqual([7, ""]);
  expect(existsSync(JSON.parse(out) as string)).toBe(false);
});

it("a directory that is left is named and removed, and the run has failed", async () => {
  const { code, out, errors } = await start(`say(mkdtempSync(join(tmpdir(), "left-"))); return 0;`).ended;
  const left = JSON.parse(out) as string;
  expect(code).toBe(1);
  expect(errors).toContain(`left behind by this run, and removed: ${left}\n`);
  expect([existsSync(left), existsSync(dirname(left))]).toEqual([false, false]);
});

// Processes and their environment are seen on Linux only.
it.runIf(process.platform === "linux").each([
  ["with the run's environment", `sleeper()`],
  ["without it, in the run's directory", `sleeper({ env: {}, cwd: tmpdir() })`],
  ["of a run in the run", `await leavingNothing(async () => { say(sleeper()); return 0; }, { graceMs: 100 })`],
])("a process that is left is named and ended, and the run has failed: %s", async (_, make) => {
  const { code, out, errors } = await start(
    `const made = ${make}; if (made > 1) say(made); return made > 1 ? 0 : made;`,
  ).ended;
  const pid = JSON.parse(out) as number;
  expect(code).toBe(1);
  expect(errors).toMatch(new RegExp(`left behind by this run, and ended: process ${pid}: \\S`));
  await until("the process has gone", () => isGone(pid));
});

it.runIf(process.platform === "linux")(
  "a run that is stopped by a signal ends with 130 and leaves no process",
  async () => {
    const { child, ended, out } = start(
      `say(sleeper()); const alive = setInterval(() => {}, 1000); await new Promise((resolve) => signal.addEventListener("abort", resolve)); clearInterval(alive); return 0;`,
    );
    await until("it has begun", () => out() !== "");
    child.kill("SIGINT");
    expect((await ended).code).toBe(130);
    const pid = JSON.parse(out()) as number;
    await until("the process has gone", () => isGone(pid));
  },
);

it("a run that throws leaves nothing either, and throws what it threw", async () => {
  const { code, out, errors } = await start(
    `say([mkdtempSync(join(tmpdir(), "left-")), sleeper()]); throw new Error("made to fail");`,
  ).ended;
  const [directory, pid] = JSON.parse(out) as [string, number];
  expect(code).toBe(1);
  expect(errors).toContain(`left behind by this run, and removed: ${directory}\n`);
  expect(errors).toContain("made to fail");
  expect(existsSync(dirname(directory))).toBe(false);
  if (process.platform === "linux") await until("the process has gone", () => isGone(pid));
  else process.kill(pid);
});
