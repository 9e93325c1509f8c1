import { execFileSync } from "node:child_process";
import { coverageKeys, type Coverage, type CoverageKey } from "./checkers/coverage.js";
import type { Failure } from "./slice.js";

/** What 10,000 seeds have to exercise at least. A run that exercised nothing has shown nothing. */
const leastPer10000: Partial<Record<CoverageKey, number>> = {
  terms: 400_000,
  takeovers: 5_000,
  contestedTerms: 500,
  claimsLandedInQuarantine: 500,
  claimsLandedWhileRivalHolds: 200,
  suspendsWithFencedInFlight: 200,
  stallsPastDeadline: 200,
  schemaGrants: 8_000,
  schemaRivalClaims: 4_000,
  schemaLateReleases: 300,
};

/** Fewer seeds than this say nothing about shares. */
const leastSeeds = 500;

/** What was exercised, and how often it has to be at least in so many seeds (0: no matter). */
export function tableOf(coverage: Coverage, seeds: number): { key: CoverageKey; times: number; least: number }[] {
  return coverageKeys.map((key) => {
    const least = Math.floor(((leastPer10000[key] ?? 0) * seeds) / 10_000);
    return { key, times: coverage[key], least };
  });
}

/** What was exercised too little. */
export function shortOf(coverage: Coverage, seeds: number): string[] {
  if (seeds < leastSeeds) return [];
  return tableOf(coverage, seeds).flatMap(({ key, times, least }) => (times < least ? [key] : []));
}

/** Prints the table of what was exercised; answers what falls short. */
export function printCoverage(coverage: Coverage, seeds: number): string[] {
  const short = shortOf(coverage, seeds);
  for (const { key, times, least } of tableOf(coverage, seeds)) {
    const wanted = least === 0 ? "" : `at least ${least}`;
    console.log(`  ${key.padEnd(28)} ${String(times).padStart(9)}  ${wanted}${short.includes(key) ? "  TOO FEW" : ""}`);
  }
  return short;
}

export function commit(): string {
  try {
    return execFileSync("git", ["describe", "--always", "--dirty"], { encoding: "utf8" }).trim();
  } catch {
    return "unknown";
  }
}

/** All that it takes to see the failure again. */
export function printFailure(failure: Failure): void {
  console.log(`\nseed ${failure.seed} at commit ${commit()}: npm run sim -- --seed ${failure.seed}`);
  console.log(`  mix ${JSON.stringify(failure.mix)}`);
  for (const { checker, trueMs, text } of failure.violations.slice(0, 5)) {
    console.log(`  ${checker} at ${trueMs.toFixed(1)} ms: ${text}`);
  }
}
