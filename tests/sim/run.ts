// `npm run sim -- --seeds N [--from S] [--workers W] | --seed S`: prints a human table and, last, one line of JSON.
import { mkdirSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { canary } from "./canary.js";
import { commit, printCoverage, printFailure } from "./report.js";
import { runSeed } from "./slice.js";
import { runSeeds } from "./workers.js";

function whole(name: string, text: string): number {
  if (!/^\d+$/.test(text)) throw new Error(`${name} is ${JSON.stringify(text)}; it must be a whole number`);
  return Number(text);
}

/** Replays one seed and writes what happened in it. */
async function one(seed: number): Promise<number> {
  const result = await runSeed(seed, { keepLog: true });
  const file = `temp/sim/seed-${seed}.log`;
  mkdirSync("temp/sim", { recursive: true });
  writeFileSync(file, `${JSON.stringify(result.mix, null, 2)}\n${result.lines.join("\n")}\n`);
  console.log(result.lines.slice(-30).join("\n"));
  console.log(`${result.events} events in ${result.virtualMs.toFixed(0)} virtual ms, hash ${result.hash}: ${file}`);
  const { violations, mix } = result;
  if (violations.length > 0) printFailure({ seed, mix, violations });
  console.log(
    JSON.stringify({ seeds: 1, seed, violations: violations.length, hash: result.hash, coverage: result.coverage }),
  );
  return violations.length > 0 ? 1 : 0;
}

async function many(from: number, count: number, workers: number): Promise<number> {
  const started = process.hrtime.bigint();
  const result = await runSeeds(from, count, workers);
  const seconds = Number(process.hrtime.bigint() - started) / 1e9;
  console.log(`${result.seeds} seeds from ${from}, ${workers} workers, commit ${commit()}, node ${process.version}`);
  const perSeed = (n: number): string => (n / result.seeds).toFixed(1);
  console.log(
    `${seconds.toFixed(1)} s, ${(result.seeds / seconds).toFixed(0)} seeds/s, per seed ${perSeed(result.turns)} turns of code ` +
      `and ${perSeed(result.virtualMs / 1000)} s of virtual time`,
  );
  const short = printCoverage(result.coverage, result.seeds);
  const bird = await canary();
  console.log(`  ${bird.text}`);
  for (const failure of result.failures.slice(0, 10)) printFailure(failure);
  console.log(
    JSON.stringify({
      seeds: result.seeds,
      violations: result.failures.length,
      seconds: Number(seconds.toFixed(1)),
      coverage: result.coverage,
      coverageShort: short,
      canary: bird.killed ? "killed" : "survived",
      failedSeeds: result.failures.slice(0, 20).map(({ seed }) => seed),
    }),
  );
  return result.failures.length + short.length > 0 || !bird.killed ? 1 : 0;
}

const { values } = parseArgs({
  args: process.argv.slice(2),
  options: {
    seeds: { type: "string", default: "1000" },
    from: { type: "string", default: "0" },
    seed: { type: "string" },
    workers: { type: "string", default: "2" },
  },
});
try {
  process.exitCode =
    values.seed !== undefined
      ? await one(whole("--seed", values.seed))
      : await many(whole("--from", values.from), whole("--seeds", values.seeds), whole("--workers", values.workers));
} catch (error) {
  console.error(`error: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
}
