// Everything that has to hold before a change lands. The test command of the README runs first and alone; then two lanes run beside each
// other, and the mutants come last. Prints minutes per tier and, last, one line with the sums over all runners.
import { mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { readResult } from "./result.mjs";
import { build, install } from "./setup.mjs";
import { root, run } from "./shell.mjs";
import { printTable } from "./test/summary.mjs";

const logs = join(root, "temp", "ci");
const rows = [];
const failures = [];

const stopped = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => stopped.abort());

/** How much of a log is printed when all went well; the rest is in its file. */
const tailLines = 40;

/**
 * One step: runs a command into a log, prints it (its end, when it passed), and takes its counts from the result that it wrote; a command that
 * writes none is one test.
 */
async function step(tier, [command, args]) {
  if (stopped.signal.aborted) throw new Error("stopped by a signal");
  const name = join(logs, tier.replaceAll(/[^a-z0-9]+/gi, "-"));
  const started = performance.now();
  const code = await run(command, args, { logFile: `${name}.log`, env: { HOLDFAST_RESULT: `${name}.json` } });
  const minutes = (performance.now() - started) / 60_000;
  const log = readFileSync(`${name}.log`, "utf8").trimEnd();
  const shown = code === 0 ? log.split("\n").slice(-tailLines).join("\n") : log;
  console.log(`\n=== ${tier} (${minutes.toFixed(2)} min, exit code ${code})\n${shown}`);
  const result = readResult(`${name}.json`) ?? { passed: code === 0 ? 1 : 0, failed: 0, failures: [] };
  failures.push(...result.failures.map((failure) => `${tier}: ${failure}`));
  rows.push(...(result.rows ?? [{ tier, passed: result.passed, failed: result.failed, minutes }]));
  if (result.failed > 0 || (code === 0 && result.passed > 0)) return;
  failures.push(`${tier}: exit code ${code} and ${result.passed} passed: see its log above`);
  rows.push({ tier: `${tier} as a whole`, passed: 0, failed: 1, minutes: 0 });
}

const npmRun = (name, ...args) => ["npm", ["run", "--silent", name, "--", ...args]];
const script = (name, ...args) => [process.execPath, [join(root, "scripts", `${name}.mjs`), ...args]];
const besideS3 = (command) => script("rgw", "run", "--", ...command.flat());

async function setUp() {
  const started = performance.now();
  await install();
  await build();
  process.env.HOLDFAST_BUILT = "1";
  if ((await run(...script("rgw", "install"))) !== 0) throw new Error("the S3 server could not be installed");
  rows.push({ tier: "install and build", passed: 1, failed: 0, minutes: (performance.now() - started) / 60_000 });
}

/** What `npm test` left out, what a newcomer runs, and the packages on other Nodes. */
async function behaviour() {
  await step("test:all, the rest", besideS3(npmRun("test:all", "--rest")));
  await step("demo", script("demo-check"));
  await step("other Nodes", script("nodes"));
  await step("simulator mutants", npmRun("sim:mutants"));
}

/** What is checked of the sources and of what is published, and the simulator. */
async function checks() {
  await step("types", script("types"));
  await step("lint", npmRun("lint"));
  await step("docs", npmRun("docs"));
  await step("requirements", script("requirements"));
  await step("packages", npmRun("check:packages"));
  await step("examples", script("examples"));
  await step("simulator", npmRun("sim", "--seeds", "10000", "--node", "24"));
}

const started = performance.now();
rmSync(logs, { recursive: true, force: true });
mkdirSync(logs, { recursive: true });
try {
  await setUp();
  await step("npm test", besideS3(["npm", ["test", "--silent"]]));
  await Promise.all([behaviour(), checks()]);
  // Alone, too: a mutant counts as killed only while its test keeps its time limits.
  await step("mutants", npmRun("mutants"));
} catch (error) {
  console.error(error);
  failures.push(`ci: ${error.message}`);
  rows.push({ tier: "ci", passed: 0, failed: 1, minutes: 0 });
}
if (failures.length > 0) console.log(`\n=== failed\n\n${failures.join("\n\n")}`);
console.log(`\n${((performance.now() - started) / 60_000).toFixed(1)} minutes in all; two lanes ran beside each other`);
printTable(rows);
process.exitCode = rows.some((r) => r.failed > 0) ? 1 : 0;
