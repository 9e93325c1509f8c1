// A process with one vitest that stays: starting it takes longer than most of the tests. Takes jobs from its parent, one at a time.
import { join } from "node:path";
import { createVitest } from "vitest/node";
import { root } from "../shell.mjs";

/**
 * @typedef {object} Job
 * @property {string} label what the log calls it
 * @property {string} project the tier of the test
 * @property {string} test the test's file, from the repository's root
 * @property {readonly string[]} titles parts of the titles of the tests to run
 * @property {{ file: string, find: string, replace: string } | null} mutant the fault that is in the source meanwhile
 */

const [testMs, hangMs] = process.argv.slice(2).map(Number);
/** Into the log: why a test failed or a file did not load. Vitest's own reporters need a whole run of vitest. */
const reporter = {
  onTestCaseResult: (test) => test.result().errors?.forEach((error) => console.log(`${test.fullName}\n${error.stack}`)),
  onTestModuleEnd: (module) => module.errors().forEach((error) => console.log(error.stack)),
};
const vitest = await createVitest("test", {
  ...{ root, watch: false, reporters: [reporter] },
  ...{ isolate: true, testTimeout: testMs },
});

const literally = (text) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** The fault is inserted when the file is loaded (vitest.config.ts), so the file must be loaded again before the run and after it. */
function setMutant(mutant, file) {
  if (mutant === null) {
    delete process.env.HOLDFAST_MUTANT;
    delete process.env.HOLDFAST_HANG_MS;
  } else {
    process.env.HOLDFAST_MUTANT = JSON.stringify(mutant);
    process.env.HOLDFAST_HANG_MS = String(hangMs);
  }
  if (file !== undefined) vitest.invalidateFile(join(root, file));
}

function nameOf(test) {
  const names = [test.name];
  for (let up = test.parent; up.type === "suite"; up = up.parent) names.unshift(up.name);
  return names.join(" ");
}

/** Answers the tests that ran, and whether the file could not be loaded. */
async function runTests({ label, project, test, titles, mutant }) {
  console.log(`\n=== ${label}`);
  const file = join(root, test);
  vitest.setGlobalTestNamePattern(new RegExp(titles.map(literally).join("|")));
  setMutant(mutant, mutant?.file);
  try {
    const { testModules } = await vitest.runTestSpecifications([
      vitest.getProjectByName(project).createSpecification(file),
    ]);
    const module = testModules.find((one) => one.moduleId === file && one.project.name === project);
    const tests = [...module.children.allTests()].map((one) => ({
      name: nameOf(one),
      state: one.result().state,
      ms: one.diagnostic()?.duration ?? 0,
    }));
    return {
      ran: tests.filter(({ state }) => state === "passed" || state === "failed"),
      broken: module.errors().length > 0,
    };
  } finally {
    setMutant(null, mutant?.file);
  }
}

process.on("message", async (/** @type {Job} */ job) => process.send({ result: await runTests(job) }));
// Its parent ends it by leaving. Vitest removes its temporary directories when it is closed.
process.on("disconnect", () => void vitest.close().finally(() => process.exit()));
