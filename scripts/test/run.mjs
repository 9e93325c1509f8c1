// The test commands: which tiers and which part of them a command line means, and what is printed at the end.
import { writeResult } from "../result.mjs";
import { printFailures, printSeconds, printTable, resultOf } from "./summary.mjs";
import { runTier, testFiles, tierOf, tiers } from "./tiers.mjs";

/**
 * Runs tests and prints what they took and what failed; returns the exit code. In the arguments, `--tier NAME` (any number of times) chooses tiers,
 * `--rest` what `npm test` leaves out; the rest is vitest's: names of files or folders, `-t TITLE`. Whoever names files gets all of their tests.
 *
 * @param {readonly string[]} args
 * @param {{ part: "quick" | "all", tiers?: readonly string[] }} options
 */
export async function runTests(args, options) {
  const { chosen, rest, passed } = parse(args);
  const named = passed.filter((arg) => testFiles().some((file) => file.includes(arg)));
  const wanted = chosen ?? (named.length > 0 ? tiersOf(named) : (options.tiers ?? Object.keys(tiers)));
  const part = rest ? "slow" : passed.length > 0 ? "all" : options.part;
  const results = [];
  for (const tier of wanted) results.push(await runTier(tier, { part, args: passed, mayBeEmpty: passed.length > 0 }));
  const ran = results.some(({ files, failed }) => files.length + failed > 0);
  if (!ran) results.push({ ...results[0], failed: 1, failures: [{ file: "", name: "", message: "no test ran" }] });
  printSeconds(results);
  printFailures(results);
  printTable(results);
  writeResult(resultOf(results));
  return results.some((r) => r.failed > 0) ? 1 : 0;
}

function parse(args) {
  const chosen = [];
  const passed = [];
  for (let at = 0; at < args.length; at += 1) {
    if (args[at] === "--tier") chosen.push(args[(at += 1)]);
    else if (args[at] !== "--rest") passed.push(args[at]);
  }
  const unknown = chosen.filter((tier) => !Object.hasOwn(tiers, tier ?? ""));
  if (unknown.length > 0) {
    throw new Error(`unknown tier ${JSON.stringify(unknown[0] ?? "")}; known: ${Object.keys(tiers).join(", ")}`);
  }
  return { chosen: chosen.length > 0 ? chosen : null, rest: args.includes("--rest"), passed };
}

/** The tiers that have files of these names, in the tiers' order. */
function tiersOf(names) {
  const found = new Set(
    testFiles()
      .filter((file) => names.some((name) => file.includes(name)))
      .map(tierOf),
  );
  return Object.keys(tiers).filter((tier) => found.has(tier));
}
