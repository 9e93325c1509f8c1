// The test tiers: each is a vitest project; results are summed from vitest's JSON report, never from its text.
import { mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { bin, root, run } from "./shell.mjs";

/**
 * How many files run at once. Vitest's own choice is one core less than there are. The live tier waits for leases and timeouts most of
 * the time: more files than CI has cores.
 */
const tierArguments = { unit: ["--maxWorkers=2"], scripted: ["--maxWorkers=2"], live: ["--maxWorkers=3"] };

const reportFolder = join(root, "temp", "reports");

/** Runs one tier; answers { tier, passed, failed, skipped, minutes }. A tier that ran nothing counts as failed. */
export async function runTier(tier, args = [], options = {}) {
  mkdirSync(reportFolder, { recursive: true });
  const report = join(reportFolder, `${options.label ?? tier}.json`);
  rmSync(report, { force: true });
  const started = performance.now();
  const node = options.node ?? [process.execPath];
  const code = await run(
    node[0],
    [
      ...node.slice(1),
      join(root, "node_modules", "vitest", "vitest.mjs"),
      "run",
      "--project",
      tier,
      "--reporter=default",
      "--reporter=json",
      `--outputFile.json=${report}`,
      "--passWithNoTests",
      ...(tierArguments[tier] ?? []),
      ...args,
    ],
    { env: options.env, logFile: options.logFile },
  );
  const minutes = (performance.now() - started) / 60_000;
  return { tier: options.label ?? tier, ...counts(report, code), minutes };
}

function counts(report, code) {
  let json;
  try {
    json = JSON.parse(readFileSync(report, "utf8"));
  } catch {
    return { passed: 0, failed: 1, skipped: 0 };
  }
  const { numPassedTests: passed, numFailedTests: failed, numPendingTests: skipped } = json;
  // A file that could not be loaded, an unhandled error or an empty tier fails without a failed test: count it as one.
  const silent = failed === 0 && (code !== 0 || passed === 0) ? 1 : 0;
  return { passed, failed: failed + silent, skipped };
}

/** Runs tiers one after the other and prints their table; answers the exit code. */
export async function runTiers(tiers, args = []) {
  const results = [];
  for (const tier of tiers) results.push(await runTier(tier, args));
  printTable(results);
  return results.some((r) => r.failed > 0) ? 1 : 0;
}

/** Prints minutes and counts per row, then the sum over all as a line of its own. */
export function printTable(results) {
  const width = Math.max(4, ...results.map((r) => r.tier.length));
  console.log(`\n${"tier".padEnd(width)}  passed  failed  skipped  minutes`);
  for (const r of results) {
    const cells = [String(r.passed).padStart(6), String(r.failed).padStart(6), String(r.skipped ?? 0).padStart(7)];
    console.log(`${r.tier.padEnd(width)}  ${cells.join("  ")}  ${r.minutes.toFixed(2).padStart(7)}`);
  }
  const sum = (key) => results.reduce((total, r) => total + (r[key] ?? 0), 0);
  console.log(`\n${sum("passed")} passed, ${sum("failed")} failed`);
}
