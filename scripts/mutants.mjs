// Mutants: faults put into a source while one test runs, which that test must notice. `node scripts/mutants.mjs [--all | package [words of names]]`
// takes the lists that need no engine, all of them, or that of one package; it first runs the named tests without any (they must pass), then
// each mutant with its test alone. A mutant is killed when the test runs and fails; not when the source does not load, the test hangs, or no
// test has that title. Prints a table and, last, one line of JSON.
import { canaries } from "../tests/mutants/canaries.mjs";
import { loadLists, packages, unfit } from "./mutants/lists.mjs";
import { isTimeout, runJobs } from "./mutants/workers.mjs";
import { writeResult } from "./result.mjs";

const args = process.argv.slice(2);
const all = args[0] === "--all";
const [wanted, ...words] = all ? [] : args;
if (wanted !== undefined && !packages.includes(wanted)) {
  console.error(`mutants: no list for ${JSON.stringify(wanted)}; there are: ${packages.join(", ")}`);
  process.exit(2);
}

/** Answers { status, why }: killed, survived or not judged. */
function verdict({ title, project }, { result, log }) {
  if (result === null || result.broken) return { status: "not judged", why: `it did not run: see ${log}` };
  if (result.ran.length === 0) return { status: "not judged", why: `no test has the title ${title}` };
  const failed = result.ran.filter(({ state }) => state === "failed");
  if (failed.length === 0) return { status: "survived", why: title };
  if (failed.every((test) => isTimeout(project, test)))
    return { status: "not judged", why: "the test hung: it needs an assertion that fails" };
  return { status: "killed", why: failed[0].name };
}

/** The named tests pass without a mutant: one run for each file. */
async function control(mutants) {
  const files = new Map();
  for (const one of mutants) files.set(one.test, [...(files.get(one.test) ?? []), one]);
  const jobs = [...files.values()].map((group) => ({
    label: `${group[0].test} without a mutant`,
    project: group[0].project,
    test: group[0].test,
    titles: [...new Set(group.map(({ title }) => title))],
    mutant: null,
  }));
  let passed = true;
  await runJobs(jobs, ({ test, titles }, { result, log }) => {
    const failed = result?.ran.filter(({ state }) => state === "failed") ?? [];
    for (const { name } of failed) console.log(`fails without any mutant: ${name}`);
    const missing = titles.filter((title) => !result?.ran.some(({ name }) => name.includes(title)));
    for (const title of missing) console.log(`does not run: ${title} in ${test} (see ${log})`);
    if (failed.length + missing.length > 0) passed = false;
  });
  return passed;
}

/** Puts each mutant in, alone, while its test runs; answers the mutants with their verdicts. */
async function judge(mutants) {
  const judged = new Map();
  function end(mutant, what, seconds) {
    judged.set(mutant, { ...mutant, ...what });
    console.log(`${what.status.padEnd(10)} ${seconds.toFixed(1).padStart(5)} s  ${mutant.name}  [${what.why}]`);
  }
  const jobs = [];
  for (const mutant of mutants) {
    const why = unfit(mutant);
    if (why !== null) end(mutant, { status: "not judged", why }, 0);
    else {
      const { name, file, find, replace, project, test, title } = mutant;
      jobs.push({ label: name, of: mutant, project, test, titles: [title], mutant: { file, find, replace } });
    }
  }
  await runJobs(jobs, (job, answer) => end(job.of, verdict(job.of, answer), answer.seconds));
  return mutants.map((mutant) => judged.get(mutant));
}

const started = performance.now();
const chosen = wanted === undefined ? packages : [wanted];
const loaded = await loadLists(chosen);
const mutants = loaded
  .filter(({ slow }) => all || wanted !== undefined || !slow)
  .flatMap((list) => list.mutants)
  .filter(({ name }) => name.includes(words.join(" ")));
if (!(await control([...mutants, ...canaries]))) {
  console.log("the tests do not pass without a mutant: nothing was judged");
  process.exit(1);
}
const judged = await judge([...canaries, ...mutants]);
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
