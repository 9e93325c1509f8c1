// Everything that has to hold before a change lands, one step after the other: the tiers that speak of time then have the
// machine to themselves (vitest uses both cores within a tier). Prints minutes per tier and, last, one line with the sums
// over all runners.
import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { failuresIn } from "./failures.mjs";
import { build, install } from "./setup.mjs";
import { root, run } from "./shell.mjs";
import { printTable } from "./tiers.mjs";

const reports = join(root, "temp", "reports");
const logs = join(root, "temp", "ci");
const rows = [];

/** How much of a log is printed when all went well; the rest is in its file. */
const tailLines = 40;

/** One step: runs a command into a log, prints it (its end, when it passed), and takes its counts from the report files it wrote; with none, it is one test. */
async function step(tier, command, args, reportFiles, options = {}) {
  const logFile = join(logs, `${tier.replaceAll(/[^a-z0-9]+/gi, "-")}.log`);
  rmSync(logFile, { force: true });
  const started = performance.now();
  const code = await run(command, args, { ...options, logFile });
  const minutes = (performance.now() - started) / 60_000;
  const log = readFileSync(logFile, "utf8").trimEnd();
  const shown = code === 0 ? log.split("\n").slice(-tailLines).join("\n") : log;
  console.log(`\n=== ${tier} (${minutes.toFixed(2)} min, exit code ${code})\n${shown}`);
  const counted = reportFiles.map((file) => join(reports, file)).map(readCounts);
  if (reportFiles.length === 0) counted.push({ passed: code === 0 ? 1 : 0, failed: code === 0 ? 0 : 1 });
  const passed = counted.reduce((n, c) => n + c.passed, 0);
  const failed = counted.reduce((n, c) => n + c.failed, 0);
  const silent = failed === 0 && (code !== 0 || passed === 0) ? 1 : 0;
  rows.push({ tier, passed, failed: failed + silent, minutes });
}

function readCounts(file) {
  if (!existsSync(file)) return { passed: 0, failed: 1 };
  const json = JSON.parse(readFileSync(file, "utf8"));
  return { passed: json.passed ?? json.numPassedTests, failed: json.failed ?? json.numFailedTests };
}

const npmRun = (name, ...args) => ["npm", ["run", "--silent", name, ...args]];
const script = (name, ...args) => [process.execPath, [join(root, "scripts", `${name}.mjs`), ...args]];

async function setUp() {
  const started = performance.now();
  await install();
  await build();
  if ((await run(...script("rgw", "install"))) !== 0) throw new Error("the S3 server could not be installed");
  rows.push({ tier: "install and build", passed: 1, failed: 0, minutes: (performance.now() - started) / 60_000 });
}

/** The test command of the README, then the demo as a newcomer runs it. */
async function behaviour() {
  const tiers = ["unit.json", "scripted.json", "live.json", "crash.json", "docs.json"];
  await step("npm test", ...script("rgw", "run", "--", "npm", "test", "--silent"), tiers);
  await step("demo", ...script("demo-check"), ["check-demo-check.json"]);
}

/** What is checked of the sources, and of what is published. */
async function checks() {
  await step("types", ...script("types"), ["check-types.json"]);
  await step("lint", ...npmRun("lint"), ["check-lint.json"]);
  await step("docs", ...npmRun("docs"), ["check-docs.json"]);
  await step("packages", ...npmRun("check:packages"), ["check-packages.json"]);
  await step("requirements", ...script("requirements"), ["check-requirements.json"]);
  await step("simulator", ...npmRun("sim", "--", "--seeds", "10000", "--node", "24"), []);
  await step("simulator mutants", ...npmRun("sim:mutants"), []);
  await step("mutants", ...script("mutants"), ["check-mutants.json"]);
  await step("other Nodes", ...script("nodes"), ["check-nodes.json"]);
  await step("examples", ...script("examples"), ["check-examples.json"]);
}

mkdirSync(logs, { recursive: true });
rmSync(reports, { recursive: true, force: true });
mkdirSync(reports, { recursive: true });
try {
  await setUp();
  await behaviour();
  await checks();
} catch (error) {
  console.error(error);
  rows.push({ tier: "ci", passed: 0, failed: 1, minutes: 0 });
}
const failures = failuresIn(reports);
if (failures.length > 0) console.log(`\n=== failed\n\n${failures.join("\n\n")}`);
printTable(rows);
process.exitCode = rows.some((r) => r.failed > 0) ? 1 : 0;
