// Checks that either pass or fail: each counts as one test in CI's closing line.
import { mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { writeResult } from "./result.mjs";
import { root, run } from "./shell.mjs";

const folder = join(root, "temp", "checks");

/** Runs a program as a check: silent when it passes, its whole output when it fails. Answers { name, passed, minutes }. */
export async function check(name, command, args, options = {}) {
  mkdirSync(folder, { recursive: true });
  const logFile = join(folder, `${name.replaceAll(/[^a-z0-9]+/gi, "-")}.log`);
  rmSync(logFile, { force: true });
  const started = performance.now();
  const code = await run(command, args, { ...options, logFile });
  const minutes = (performance.now() - started) / 60_000;
  if (code !== 0) console.log(`\n${name}: exit code ${code}\n${readFileSync(logFile, "utf8")}`);
  return { name, passed: code === 0, minutes };
}

/** Runs a function as a check; a throw fails it with its message. */
export async function checkThat(name, fn) {
  const started = performance.now();
  try {
    await fn();
    return { name, passed: true, minutes: (performance.now() - started) / 60_000 };
  } catch (error) {
    console.log(`\n${name}: ${error.message}`);
    return { name, passed: false, minutes: (performance.now() - started) / 60_000 };
  }
}

/** Prints the checks, leaves them for CI to add up, and sets the exit code. */
export function report(checks) {
  for (const c of checks) console.log(`${c.passed ? "ok    " : "FAILED"}  ${c.name}`);
  const passed = checks.filter((c) => c.passed).length;
  const failures = checks.filter((c) => !c.passed).map((c) => c.name);
  const failed = failures.length;
  writeResult({ passed, failed, failures });
  console.log(`\n${passed} passed, ${failed} failed`);
  process.exitCode = failed > 0 ? 1 : 0;
}
