// The test tiers: each is a vitest project. Counts come from the report that our reporter writes, never from text.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { root, run } from "../shell.mjs";

/**
 * The tiers in the order in which they run, each with the number of files that run at once. The files of `live` wait for leases and
 * timeouts most of the time: more of them than there are cores.
 */
export const tiers = { unit: 2, scripted: 3, live: 4, crash: 3, docs: 2 };

/** What of a tier runs: `all`, or what has the tag `slow` (`slow`), or what has not (`quick`). Answers vitest's arguments, null for no file. */
const partArguments = {
  all: (_, names) => names,
  quick: (_, names) => ["--tags-filter", "!slow", ...names],
  slow: (tier, names) => {
    // Vitest runs what matches any of its names, so those that were given are applied here.
    const files = filesWithSlowTests(tier).filter((file) => names.length === 0 || matches(names)(file));
    return files.length > 0 ? ["--tags-filter", "slow", ...files] : null;
  },
};

/** Whether a file is meant by one of these names, as vitest sees it. */
export const matches = (names) => (file) => names.some((name) => file.includes(name));

/** Every test file of the workspace, by its path from the root. */
export function testFiles() {
  const within = (folder) =>
    readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) return entry.name === "node_modules" ? [] : within(path);
      return entry.name.endsWith(".test.ts") ? [path] : [];
    });
  return ["packages", "tests"].flatMap(within);
}

/** Files whose text has the tag: what has none of it need not be loaded to find that out. */
function filesWithSlowTests(tier) {
  const marks = /@module-tag\s+slow\b|\btags:\s*\[[^\]]*["'`]slow["'`]/;
  return testFiles().filter((file) => tierOf(file) === tier && marks.test(readFileSync(join(root, file), "utf8")));
}

/** The tier of a test file, by its path: `packages/x/test/live/y.test.ts` is of `live`, `tests/crash/y.test.ts` of `crash`. */
export function tierOf(file) {
  const [, folder] = file.match(/^packages\/[^/]+\/test\/(\w+)\//) ?? file.match(/^tests\/(\w+)\//) ?? [];
  const tier = { prop: "unit", sim: "scripted", runner: "scripted" }[folder] ?? folder;
  return Object.hasOwn(tiers, tier ?? "") ? tier : null;
}

/**
 * Runs one tier; returns its report with the tier's name and the minutes that it took.
 *
 * @param {string} tier
 * @param {{ part?: "all" | "quick" | "slow", names?: readonly string[], args?: readonly string[], label?: string,
 *   node?: readonly string[], env?: object, mayBeEmpty?: boolean }} options
 *   `names` of files or folders; `args` are passed to vitest; `node` is the program that runs it; `label` names the report; `mayBeEmpty`: a tier without any such test has
 *   not failed
 */
export async function runTier(tier, options = {}) {
  const { part = "all", names = [], args = [], label = part === "slow" ? `${tier}, slow` : tier } = options;
  const filter = partArguments[part](tier, names);
  if (filter === null) return { tier: label, passed: 0, failed: 0, skipped: 0, files: [], failures: [], minutes: 0 };
  const folder = mkdtempSync(join(tmpdir(), "report-"));
  const report = join(folder, "report.json");
  const started = performance.now();
  const [program, ...before] = options.node ?? [process.execPath];
  const code = await run(
    program,
    [
      ...before,
      join(root, "node_modules", "vitest", "vitest.mjs"),
      ...["run", "--project", tier, "--passWithNoTests", `--maxWorkers=${tiers[tier]}`],
      ...["--reporter=default", `--reporter=${join(root, "scripts", "test", "reporter.mjs")}`],
      ...filter,
      ...args,
    ],
    { env: { ...options.env, HOLDFAST_REPORT: report } },
  );
  const result = readReport(report, code, tier);
  rmSync(folder, { recursive: true, force: true });
  const isEmpty = code === 0 && result.passed === 0;
  const counts = isEmpty && options.mayBeEmpty ? { ...result, failed: 0, failures: [] } : result;
  return { tier: label, ...counts, minutes: (performance.now() - started) / 60_000 };
}

/** A run that wrote no report, ran nothing, or ended with an error that no test shows has failed once. */
function readReport(file, code, tier) {
  let report;
  try {
    report = JSON.parse(readFileSync(file, "utf8"));
  } catch {
    const message = `vitest ended with exit code ${code} and without a report: see its output`;
    return { passed: 0, failed: 1, skipped: 0, files: [], failures: [{ file: "", name: "", message }] };
  }
  if (report.failed > 0 || (code === 0 && report.passed > 0)) return report;
  const message =
    code === 0 ? `no test of ${tier} ran` : `vitest ended with exit code ${code} though no test failed: see its output`;
  return { ...report, failed: 1, failures: [{ file: "", name: "", message }] };
}
