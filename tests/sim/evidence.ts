// A run of many seeds that can be interrupted, and its report. Each slice that is done is noted; the same command goes on after the last.
import { createHash } from "node:crypto";
import { appendFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { commit, shortOf, tableOf } from "./report.js";
import type { SliceResult } from "./slice.js";
import { runSeeds, sumOf, type Workers } from "./workers.js";

const seedsPerSlice = 20_000;

/** A slice that is done, as it stands in the notes. */
interface Done {
  readonly from: number;
  readonly count: number;
  readonly seconds: number;
  readonly result: SliceResult;
}

/** All slices of a run. */
export interface Run {
  readonly result: SliceResult;
  readonly seconds: number;
  /** SHA-256 of what the workers ran: the product and the simulator in one file. */
  readonly sources: string;
}

/** Slices are taken from the notes only if the very same code made them, on the same Node. */
function notesOf(workers: Workers, sources: string, from: number, count: number): string {
  const key = createHash("sha256").update(`${sources} ${workers.execPath} ${from} ${count}`).digest("hex").slice(0, 16);
  return `temp/sim/slices-${key}.jsonl`;
}

function read(notes: string): Done[] {
  if (!existsSync(notes)) return [];
  const lines = readFileSync(notes, "utf8").split("\n");
  // The last line was cut off if the run was ended while it was written.
  return lines.slice(0, -1).map((line) => JSON.parse(line) as Done);
}

/** Runs the slices that are not done yet. */
export async function runNoted(workers: Workers, from: number, count: number): Promise<Run> {
  const sources = createHash("sha256").update(readFileSync(workers.file)).digest("hex");
  const notes = notesOf(workers, sources, from, count);
  const done = read(notes);
  mkdirSync(dirname(notes), { recursive: true });
  writeFileSync(notes, done.map((one) => `${JSON.stringify(one)}\n`).join(""));
  for (let at = from; at < from + count; at += seedsPerSlice) {
    if (done.some((one) => one.from === at)) continue;
    const size = Math.min(seedsPerSlice, from + count - at);
    const started = process.hrtime.bigint();
    const result = await runSeeds(workers, at, size);
    const seconds = Number(process.hrtime.bigint() - started) / 1e9;
    const one: Done = { from: at, count: size, seconds, result };
    done.push(one);
    appendFileSync(notes, `${JSON.stringify(one)}\n`);
    const rate = (size / seconds).toFixed(0);
    console.log(`seeds ${at} to ${at + size - 1}: ${result.failures.length} violations, ${rate} seeds/s  [${notes}]`);
  }
  return {
    sources,
    result: sumOf(done.map((one) => one.result)),
    seconds: done.reduce((sum, one) => sum + one.seconds, 0),
  };
}

/** The report of a run, for docs/evidence. */
export function writeReport(file: string, command: string, from: number, run: Run, canary: string): void {
  const { result, seconds, sources } = run;
  const short = shortOf(result.coverage, result.seeds);
  const failed = result.failures.map(
    (failure) => `- ${failure.seed}: ${failure.violations.map((one) => one.checker).join(", ")}`,
  );
  const facts: [string, string][] = [
    ["command", `\`${command}\``],
    ["date", new Date().toISOString().slice(0, 10)],
    ["commit", commit()],
    ["sources (SHA-256 of the bundle that ran)", `\`${sources}\``],
    ["Node that ran the code under test", result.node],
    ["seeds", `${from} to ${from + result.seeds - 1} (${result.seeds})`],
    ["violations", String(result.failures.length)],
    ["canaries", canary.replace("canaries: ", "")],
    ["too little exercised", short.length === 0 ? "nothing" : short.join(", ")],
    ["turns of code", String(result.turns)],
    ["virtual time", `${(result.virtualMs / 3_600_000).toFixed(0)} hours`],
    ["time", `${seconds.toFixed(0)} s, ${(result.seeds / seconds).toFixed(0)} seeds/s`],
    ["user CPU", `${(result.cpuMs / result.seeds).toFixed(1)} s for 1,000 seeds`],
  ];
  const exercised = tableOf(result.coverage, result.seeds).map(({ key, times, least }) => [
    key,
    String(times),
    least === 0 ? "" : String(least),
  ]);
  const text = [
    `# The simulator over ${result.seeds} seeds`,
    "What is simulated and checked: [tests/sim/README.md](../../tests/sim/README.md). Every 50th seed ran twice, to the same log.",
    markdownTable(["what", "value"], facts),
    markdownTable(["exercised", "times", "at least"], exercised),
    ...(failed.length === 0 ? [] : ["## Violations", failed.join("\n")]),
  ];
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, `${text.join("\n\n")}\n`);
}

/** Laid out as the formatter of the repository does it. */
function markdownTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((_, at) => Math.max(3, ...[head, ...rows].map((row) => row[at]!.length)));
  const line = (row: readonly string[]): string => `| ${row.map((cell, at) => cell.padEnd(widths[at]!)).join(" | ")} |`;
  return [line(head), line(widths.map((width) => "-".repeat(width))), ...rows.map(line)].join("\n");
}
