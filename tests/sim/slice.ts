import { addCoverage, emptyCoverage, type Coverage } from "./checkers/coverage.js";
import type { Violation } from "./checkers/records.js";
import { mixOf, type Mix } from "./world/mix.js";
import type { SchemaMix } from "./world/schema-mix.js";
import { SchemaWorld } from "./world/schema-world.js";
import { inMacrotask } from "./world/turns.js";
import { World, type RunResult, type WorldOptions } from "./world/world.js";

/** A seed in which a rule did not hold. */
export interface Failure {
  readonly seed: number;
  readonly mix: object;
  readonly violations: readonly Violation[];
}

/** What some seeds came to. */
export interface SliceResult {
  readonly seeds: number;
  readonly turns: number;
  readonly virtualMs: number;
  /** CPU time of the process in user mode. */
  readonly cpuMs: number;
  /** The Node that ran it. */
  readonly node: string;
  readonly failures: readonly Failure[];
  readonly coverage: Coverage;
}

export interface SliceOptions extends WorldOptions {
  readonly mix?: (seed: number) => Mix;
  /** How much more than told the replicas of the schema lease lag: 1, or more in a world that breaks its condition (the canary). */
  readonly lags?: number;
  /** One world alone. Default: that of the publisher lease for each seed, and for every fourth also that of the schema lease. */
  readonly world?: "publisher" | "schema";
  /** Every so many seeds one runs twice, and has to end with the same log. */
  readonly repeatEvery?: number;
  /** Ends at the first failure. */
  readonly stopAtFailure?: boolean;
}

/** Nothing but the run's own errors would be read, and making a stack costs more than all the rest of them. */
function withoutStacks<T>(fn: () => T): T {
  const limit = Error.stackTraceLimit;
  Error.stackTraceLimit = 0;
  try {
    return fn();
  } finally {
    Error.stackTraceLimit = limit;
  }
}

/** Runs one seed. */
export function runSeed(seed: number, o: SliceOptions = {}): Promise<RunResult> {
  const mix = (o.mix ?? mixOf)(seed);
  return inMacrotask(() => {
    const run = (): RunResult => new World(seed, mix, o).run();
    return o.keepLog === true ? run() : withoutStacks(run);
  });
}

/** Runs the world of the schema lease for one seed. */
export function runSchemaSeed(seed: number, o: SliceOptions = {}): Promise<RunResult<SchemaMix>> {
  return inMacrotask(() => {
    const run = (): RunResult<SchemaMix> => new SchemaWorld(seed, o).run();
    return o.keepLog === true ? run() : withoutStacks(run);
  });
}

type RunOf = (seed: number, o: SliceOptions) => Promise<RunResult<object>>;
const schemaEvery = 4;

function worldsOf(seed: number, { world }: SliceOptions): readonly RunOf[] {
  if (world === "schema") return [runSchemaSeed];
  return world === undefined && seed % schemaEvery === 0 ? [runSeed, runSchemaSeed] : [runSeed];
}

let rejections: unknown[] = [];
process.on("unhandledRejection", (reason) => rejections.push(reason));
// Settings with a narrow fence window warn; here they are on purpose.
process.emitWarning = () => undefined;

/** Runs seeds one after another in this process. */
export async function runSlice(seeds: readonly number[], o: SliceOptions = {}): Promise<SliceResult> {
  const coverage = emptyCoverage();
  const failures: Failure[] = [];
  let [turns, virtualMs, ran] = [0, 0, 0];
  const cpuBefore = process.cpuUsage();
  for (const seed of seeds) {
    ran += 1;
    for (const run of worldsOf(seed, o)) {
      const result = await run(seed, o);
      turns += result.turns;
      virtualMs += result.virtualMs;
      addCoverage(coverage, result.coverage);
      const violations = [...result.violations, ...(await more(result, run, o))];
      if (violations.length > 0) failures.push({ seed, mix: result.mix, violations });
    }
    if (failures.length > 0 && o.stopAtFailure === true) break;
  }
  const cpuMs = process.cpuUsage(cpuBefore).user / 1000;
  return { seeds: ran, turns, virtualMs, cpuMs, node: process.version, failures, coverage };
}

/** What shows only after a run: promises that nobody handled, and that the same seed gives the same run. */
async function more(result: RunResult<object>, run: RunOf, o: SliceOptions): Promise<Violation[]> {
  const violations: Violation[] = [];
  const add = (checker: string, text: string): void =>
    void violations.push({ checker, trueMs: result.virtualMs, text });
  if (o.repeatEvery !== undefined && result.seed % o.repeatEvery === 0) {
    const again = await run(result.seed, o);
    if (again.hash !== result.hash)
      add("Deterministic", `one log has the hash ${result.hash}, the other ${again.hash}`);
  }
  for (const reason of rejections) add("NoUnhandledRejection", String(reason));
  rejections = [];
  return violations;
}
