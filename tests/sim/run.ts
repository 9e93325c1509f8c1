// `npm run sim -- --seeds N [--from S] [--workers W] [--node RELEASE] [--report FILE] | --seed S`: prints a human table and, last, one
// line of JSON.
import { mkdirSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { bundle } from "./bundle.js";
import { canary } from "./canary.js";
import { runNoted, writeReport, type Run } from "./evidence.js";
import { commit, printCoverage, printFailure } from "./report.js";
import { addCoverage, emptyCoverage } from "./checkers/coverage.js";
import { runSchemaSeed, runSeed } from "./slice.js";
import type { RunResult } from "./world/world.js";
import { nodeOf, runSeeds, type Workers } from "./workers.js";

function whole(name: string, text: string): number {
  if (!/^\d+$/.test(text)) throw new Error(`${name} is ${JSON.stringify(text)}; it must be a whole number`);
  return Number(text);
}

/** Replays one seed and writes what happened in its worlds. */
async function one(seed: number): Promise<number> {
  const publisher = replay("", await runSeed(seed, { keepLog: true }));
  const schema = replay("-schema", await runSchemaSeed(seed, { keepLog: true }));
  const violations = publisher.violations.length + schema.violations.length;
  const coverage = emptyCoverage();
  for (const one of [publisher, schema]) addCoverage(coverage, one.coverage);
  const { hash } = publisher;
  console.log(JSON.stringify({ seeds: 1, seed, violations, hash, schemaHash: schema.hash, coverage }));
  return violations > 0 ? 1 : 0;
}

function replay<R extends RunResult<object>>(which: string, result: R): R {
  const { seed, mix, lines, violations } = result;
  const file = `temp/sim/seed-${seed}${which}.log`;
  mkdirSync("temp/sim", { recursive: true });
  writeFileSync(file, `${JSON.stringify(mix, null, 2)}\n${lines.join("\n")}\n`);
  console.log(lines.slice(-30).join("\n"));
  console.log(`${result.events} events in ${result.virtualMs.toFixed(0)} virtual ms, hash ${result.hash}: ${file}`);
  if (violations.length > 0) printFailure({ seed, mix, violations });
  return result;
}

async function runOnce(workers: Workers, from: number, count: number): Promise<Omit<Run, "sources">> {
  const started = process.hrtime.bigint();
  const result = await runSeeds(workers, from, count);
  return { result, seconds: Number(process.hrtime.bigint() - started) / 1e9 };
}

function printRun({ result, seconds }: Omit<Run, "sources">, from: number, workers: number): void {
  console.log(`${result.seeds} seeds from ${from}, ${workers} workers, commit ${commit()}, node ${result.node}`);
  const perSeed = (n: number): string => (n / result.seeds).toFixed(1);
  console.log(
    `${seconds.toFixed(1)} s, ${(result.seeds / seconds).toFixed(0)} seeds/s, ${perSeed(result.cpuMs)} s of user CPU for 1000 seeds; ` +
      `per seed ${perSeed(result.turns)} turns of code and ${perSeed(result.virtualMs / 1000)} s of virtual time`,
  );
}

async function many(from: number, count: number, workers: Workers, report: string | undefined): Promise<number> {
  const noted = report === undefined ? null : await runNoted(workers, from, count);
  const run = noted ?? (await runOnce(workers, from, count));
  const { result, seconds } = run;
  printRun(run, from, workers.count);
  const short = printCoverage(result.coverage, result.seeds);
  const bird = await canary();
  console.log(`  ${bird.text}`);
  for (const failure of result.failures.slice(0, 10)) printFailure(failure);
  if (report !== undefined && noted !== null) {
    writeReport(report, `npm run sim -- ${process.argv.slice(2).join(" ")}`, from, noted, bird.text);
    console.log(`report: ${report}`);
  }
  console.log(
    JSON.stringify({
      seeds: result.seeds,
      violations: result.failures.length,
      seconds: Number(seconds.toFixed(1)),
      node: result.node,
      coverage: result.coverage,
      coverageShort: short,
      canary: bird.killed ? "killed" : "survived",
      failedSeeds: result.failures.slice(0, 20).map(({ seed }) => seed),
    }),
  );
  return result.failures.length + short.length > 0 || !bird.killed ? 1 : 0;
}

async function manyOf(o: {
  from: string;
  seeds: string;
  workers: string;
  node?: string;
  report?: string;
}): Promise<number> {
  const [from, count] = [whole("--from", o.from), whole("--seeds", o.seeds)];
  const file = await bundle("worker.ts", "worker");
  const workers: Workers = { file, count: whole("--workers", o.workers), execPath: nodeOf(o.node) };
  return many(from, count, workers, o.report);
}

const { values } = parseArgs({
  args: process.argv.slice(2),
  options: {
    seeds: { type: "string", default: "1000" },
    from: { type: "string", default: "0" },
    seed: { type: "string" },
    workers: { type: "string", default: "2" },
    node: { type: "string" },
    report: { type: "string" },
  },
});
try {
  process.exitCode = values.seed === undefined ? await manyOf(values) : await one(whole("--seed", values.seed));
} catch (error) {
  console.error(`error: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
}
