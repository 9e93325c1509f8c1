// The test commands: which tiers and which part of them a command line means, and what is printed at the end.
import { parseArgs } from "node:util";
import { writeResult } from "../result.mjs";
import { printFailures, printSeconds, printTable, resultOf } from "./summary.mjs";
import { matches, runTier, testFiles, tierOf, tiers } from "./tiers.mjs";

/**
 * Runs tests and prints what they took and what failed; returns the exit code. In the arguments, `--tier NAME` (any number of times) chooses tiers,
 * `--rest` what `npm test` leaves out; the rest is vitest's: names of files or folders, `-t TITLE`. Whoever names files or a title gets all
 * of their tests.
 *
 * @param {readonly string[]} args
 * @param {{ part: "quick" | "all", tiers?: readonly string[], signal?: AbortSignal }} options `signal`: no further tier is begun once it is aborted
 */
export async function runTests(args, options) {
  const results = [];
  for (const { tier, ...one } of plan(args, options)) {
    if (options.signal?.aborted) break;
    results.push(await runTier(tier, one));
  }
  const ran = results.some(({ files, failed }) => files.length + failed > 0);
  if (!ran) results.push(nothingRan(options.signal?.aborted ? "the run was stopped" : "no test ran"));
  printSeconds(results);
  printFailures(results);
  printTable(results);
  writeResult(resultOf(results));
  return results.some((r) => r.failed > 0) ? 1 : 0;
}

/** What {@link runTests} runs, in order: tiers, each with what `runTier` is told. Throws for a tier that there is not. */
export function plan(args, { part, tiers: usual = Object.keys(tiers) }) {
  const { chosen, rest, names, passed } = parse(args);
  const named = names.length > 0 || passed.length > 0;
  const what = { part: rest ? "slow" : named ? "all" : part, names, args: passed, mayBeEmpty: named };
  return tiersFor(chosen ?? usual, names).map((tier) => ({ tier, ...what }));
}

const nothingRan = (message) => ({
  ...{ tier: "-", passed: 0, failed: 1, skipped: 0, minutes: 0, files: [] },
  failures: [{ file: "", name: "", message }],
});

function parse(args) {
  const known = {
    tier: { type: "string", multiple: true },
    rest: { type: "boolean" },
    testNamePattern: { type: "string", short: "t" },
  };
  const { tokens, values } = parseArgs({ args, options: known, strict: false, allowPositionals: true, tokens: true });
  const chosen = values.tier ?? [];
  const unknown = chosen.filter((tier) => typeof tier !== "string" || !Object.hasOwn(tiers, tier));
  if (unknown.length > 0) {
    const given = typeof unknown[0] === "string" ? unknown[0] : "";
    throw new Error(`unknown tier ${JSON.stringify(given)}; known: ${Object.keys(tiers).join(", ")}`);
  }
  const passed = tokens
    .filter(({ kind, name }) => kind === "option" && name !== "tier" && name !== "rest")
    .flatMap(({ rawName, value, inlineValue }) =>
      value === undefined ? [rawName] : inlineValue ? [`${rawName}=${value}`] : [rawName, value],
    );
  const names = tokens.filter(({ kind }) => kind === "positional").map(({ value }) => value);
  return { chosen: chosen.length > 0 ? chosen : null, rest: values.rest === true, names, passed };
}

/** Those of the tiers that have files of these names, or all of them when nothing is named. */
function tiersFor(wanted, names) {
  if (names.length === 0) return wanted;
  const found = new Set(testFiles().filter(matches(names)).map(tierOf));
  return wanted.filter((tier) => found.has(tier));
}
