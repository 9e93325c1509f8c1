// A vitest reporter: writes what ran to the file that HOLDFAST_REPORT names, as `Report`. Vitest's own JSON report has no errors
// outside tests and no time that the loading of a file took.
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

/**
 * @typedef {object} Failure
 * @property {string} file from the repository's root; empty for an error outside every file
 * @property {string} name the names of its suites and its own, as `-t` matches them; empty for a file that could not be loaded
 * @property {boolean} [suite] it is a suite's hook that failed, and the name that suite's
 * @property {string} message the beginning of what was thrown
 *
 * @typedef {object} Report
 * @property {number} passed
 * @property {number} failed tests, hooks, files that could not be loaded and errors outside tests
 * @property {number} skipped what was filtered out included
 * @property {readonly { file: string, seconds: number, passed: number, failed: number }[]} files those in which a test ran
 * @property {readonly Failure[]} failures
 */

const messageChars = 1_500;
const text = (errors) =>
  errors
    .map((error) => String(error.stack ?? error.message ?? error))
    .join("\n")
    .slice(0, messageChars);

/** The names of a test's or suite's suites and its own, joined as vitest joins them for `-t`. */
function nameOf(test) {
  const names = [];
  for (let task = test; task.type !== "module"; task = task.parent) names.unshift(task.name);
  return names.join(" ");
}

function ofModule(module) {
  const file = module.relativeModuleId;
  const tests = [...module.children.allTests()];
  const inState = (state) => tests.filter((test) => test.result().state === state);
  const failures = inState("failed").map((test) => ({
    file,
    name: nameOf(test),
    message: text(test.result().errors ?? []),
  }));
  // A hook that fails fails its suite, and no test of it.
  for (const suite of module.children.allSuites()) {
    if (suite.errors().length > 0)
      failures.push({ file, name: nameOf(suite), suite: true, message: text(suite.errors()) });
  }
  if (module.errors().length > 0) failures.push({ file, name: "", message: text(module.errors()) });
  const { duration, collectDuration, setupDuration, prepareDuration, environmentSetupDuration } = module.diagnostic();
  const ms = duration + collectDuration + setupDuration + prepareDuration + environmentSetupDuration;
  const counts = { passed: inState("passed").length, skipped: inState("skipped").length };
  return { file, seconds: ms / 1_000, ...counts, failures };
}

export default class HoldfastReporter {
  onTestRunEnd(modules, unhandledErrors) {
    const all = modules.map(ofModule);
    const outside = unhandledErrors.map((error) => ({ file: "", name: "", message: text([error]) }));
    const failures = [...all.flatMap((module) => module.failures), ...outside];
    const sum = (key) => all.reduce((total, module) => total + module[key], 0);
    const files = all
      .filter(({ passed, failures: own }) => passed + own.length > 0)
      .map(({ file, seconds, passed, failures: own }) => ({ file, seconds, passed, failed: own.length }));
    const report = { passed: sum("passed"), failed: failures.length, skipped: sum("skipped"), files, failures };
    const path = process.env.HOLDFAST_REPORT;
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, JSON.stringify(report, null, 1));
  }
}
