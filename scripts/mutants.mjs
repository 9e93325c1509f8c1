// Mutants: faults put into a source while one test runs, which that test must notice. `node scripts/mutants.mjs [--all | package [words of names]]`
// takes the lists that need no engine, all of them, or that of one package; it first runs the named tests without any (they must pass), then each mutant with its test alone, two at a time. A mutant is
// killed when the test runs and fails; not when the source does not load, the test hangs, or no test has that title.
// Prints a table and, last, one line of JSON.
import { spawn } from "node:child_process";
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { canaries } from "../tests/mutants/canaries.mjs";
import { writeResult } from "./result.mjs";
import { root } from "./shell.mjs";

/**
 * @typedef {object} Mutant
 * @property {string} name the fault, as a sentence without its full stop
 * @property {string} file the source, from the repository's root
 * @property {string} find text that stands in it exactly once
 * @property {string} replace what takes its place
 * @property {string} project the tier of the test
 * @property {string} test the test's file, from the repository's root
 * @property {string} title a part of the title of the test that must fail
 */

const lists = join(root, "tests", "mutants");
const folder = join(root, "temp", "mutants");
const atOnce = 2;
/**
 * `hangMs`: a condition that does not come true (`until` of tests/machine) fails its test by name. `testMs`: a test that hangs otherwise is ended by
 * vitest. `processMs`: a module that hangs while it loads is ended with its process. Tests with an engine take their time on two cores.
 */
const limits = {
  quick: { hangMs: 10_000, testMs: 20_000, processMs: 90_000 },
  live: { hangMs: 30_000, testMs: 120_000, processMs: 300_000 },
};
const limitsOf = (project) => (project === "live" ? limits.live : limits.quick);

const packages = readdirSync(lists)
  .filter((file) => file.endsWith(".mjs") && file !== "canaries.mjs")
  .map((file) => file.replace(/\.mjs$/, ""));
const args = process.argv.slice(2);
const all = args[0] === "--all";
const [wanted, ...words] = all ? [] : args;
if (wanted !== undefined && !packages.includes(wanted)) {
  console.error(`mutants: no list for ${JSON.stringify(wanted)}; there are: ${packages.join(", ")}`);
  process.exit(2);
}

const literally = (text) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** Runs vitest with its output in a file; it is ended when it hangs. */
async function vitest(args, { env, timeout }, logFile) {
  const log = openSync(logFile, "w");
  const child = spawn(process.execPath, [join(root, "node_modules", "vitest", "vitest.mjs"), ...args], {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: ["ignore", log, log],
    timeout,
    killSignal: "SIGKILL",
  });
  await new Promise((resolve) => child.once("close", resolve));
  closeSync(log);
}

/** Runs the tests with these titles in one file; answers vitest's own report of them, or null when there is none. */
async function runTests(label, { project, test }, titles, mutant) {
  const report = join(folder, `${label}.json`);
  rmSync(report, { force: true });
  const { file, find, replace } = mutant ?? {};
  const { hangMs, testMs, processMs } = limitsOf(project);
  await vitest(
    [
      ...["run", "--project", project, test, "-t", titles.map(literally).join("|")],
      ...[`--testTimeout=${testMs}`, "--reporter=json", `--outputFile=${report}`],
    ],
    {
      env: mutant && { HOLDFAST_MUTANT: JSON.stringify({ file, find, replace }), HOLDFAST_HANG_MS: String(hangMs) },
      timeout: processMs,
    },
    join(folder, `${label}.log`),
  );
  if (!existsSync(report)) return null;
  const { testResults } = JSON.parse(readFileSync(report, "utf8"));
  const ran = testResults
    .flatMap(({ assertionResults }) => assertionResults)
    .filter(({ status }) => status === "passed" || status === "failed");
  const broken = testResults.filter(
    ({ status, assertionResults }) => status === "failed" && assertionResults.length === 0,
  );
  return { ran, broken };
}

/** Vitest's report has no word for it but the time that the test took. */
const isTimeout =
  (project) =>
  ({ duration }) =>
    duration >= limitsOf(project).testMs;

/** Answers { status, why }: killed, survived or not judged. */
async function judge(mutant, label) {
  const found = readFileSync(join(root, mutant.file), "utf8").split(mutant.find).length - 1;
  if (found !== 1) return { status: "not judged", why: `${mutant.file} has its text ${found} times, not once` };
  const result = await runTests(label, mutant, [mutant.title], mutant);
  if (result === null || result.broken.length > 0)
    return { status: "not judged", why: `it did not run: see ${label}.log` };
  if (result.ran.length === 0) return { status: "not judged", why: `no test has the title ${mutant.title}` };
  const failed = result.ran.filter(({ status }) => status === "failed");
  if (failed.length === 0) return { status: "survived", why: mutant.title };
  if (failed.every(isTimeout(mutant.project)))
    return { status: "not judged", why: "the test hung: it needs an assertion that fails" };
  return { status: "killed", why: failed[0].title };
}

/** Runs the jobs, so many at once; answers their results in order. */
async function inParallel(jobs) {
  const results = [];
  let next = 0;
  const worker = async () => {
    while (next < jobs.length) {
      const n = next++;
      results[n] = await jobs[n]();
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  return results;
}

/** The named tests pass without a mutant: one run for each file. */
async function control(mutants) {
  const files = new Map();
  for (const one of mutants) files.set(one.test, [...(files.get(one.test) ?? []), one]);
  const jobs = [...files.values()].map((group, n) => async () => {
    const titles = [...new Set(group.map(({ title }) => title))];
    const result = await runTests(`control-${n}`, group[0], titles, null);
    const failed = result?.ran.filter(({ status }) => status === "failed") ?? [];
    for (const { fullName } of failed) console.log(`fails without any mutant: ${fullName}`);
    const missing = titles.filter((title) => !result?.ran.some(({ fullName }) => fullName.includes(title)));
    for (const title of missing) console.log(`does not run: ${title} in ${group[0].test} (see control-${n}.log)`);
    return failed.length + missing.length === 0;
  });
  return (await inParallel(jobs)).every(Boolean);
}

const started = performance.now();
mkdirSync(folder, { recursive: true });
const chosen = wanted === undefined ? packages : [wanted];
const loaded = await Promise.all(chosen.map((name) => import(join(lists, `${name}.mjs`))));
const mutants = loaded
  .filter(({ slow }) => all || wanted !== undefined || !slow)
  .flatMap((list) => list.mutants)
  .filter(({ name }) => name.includes(words.join(" ")));
if (!(await control([...mutants, ...canaries]))) {
  console.log("the tests do not pass without a mutant: nothing was judged");
  process.exit(1);
}
const judged = await inParallel(
  [...canaries, ...mutants].map((mutant, n) => async () => {
    const since = performance.now();
    const verdict = await judge(mutant, `mutant-${n}`);
    const seconds = ((performance.now() - since) / 1_000).toFixed(1).padStart(5);
    console.log(`${verdict.status.padEnd(10)} ${seconds} s  ${mutant.name}  [${verdict.why}]`);
    return { ...mutant, ...verdict };
  }),
);
const wrong = judged.filter(({ expected, status }) => expected !== undefined && expected !== status);
for (const { name, expected, status } of wrong) {
  console.log(`the runner itself is wrong: the canary "${name}" should be ${expected} and is ${status}`);
}
const own = judged.slice(canaries.length);
const named = (status) => own.filter((one) => one.status === status).map(({ name }) => name);
const [killed, notJudged] = [named("killed").length, named("not judged")];
const survivors = [...named("survived"), ...notJudged];
const seconds = Math.round((performance.now() - started) / 1_000);
writeResult({
  passed: killed,
  failed: survivors.length + wrong.length,
  failures: [...survivors, ...wrong.map(({ name }) => name)],
});
console.log(
  JSON.stringify({ mutants: own.length, killed, survivors, notJudged, canariesWrong: wrong.length, seconds }),
);
process.exitCode = survivors.length + wrong.length > 0 ? 1 : 0;
