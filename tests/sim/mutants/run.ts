// `npm run sim:mutants [-- --seeds N] [--only TEXT]`: each mutant of the list must be killed by its named checker within N seeds, and
// behave like the product where there are no faults. Prints a table and, last, one line of JSON.
import { fork } from "node:child_process";
import { parseArgs } from "node:util";
import { bundle, type SourceChange } from "../bundle.js";
import { canaryMutant, mutants, type Mutant } from "./list.js";
import type { MutantJob, MutantResult } from "./worker.js";

const atOnce = 2;
const faultFreeSeeds = 12;
/** A worker that hangs is ended; nothing was judged then. */
const hangsAfterMs = 300_000;

async function inWorker(label: string, change: SourceChange | null, job: MutantJob): Promise<MutantResult> {
  const file = await bundle("mutants/worker.ts", label, change);
  return new Promise((resolve) => {
    const child = fork(file, { execArgv: [], timeout: hangsAfterMs, killSignal: "SIGKILL" });
    let result: MutantResult = { hashes: [], killedAt: null, checker: null, text: "it hung or crashed" };
    child.once("message", (message) => (result = message as MutantResult));
    child.once("exit", () => resolve(result));
    child.send(job);
  });
}

interface Verdict {
  readonly mutant: Mutant;
  readonly status: "killed" | "survived" | "not judged";
  readonly why: string;
}

async function judge(mutant: Mutant, label: string, seedsAtMost: number, product: readonly string[]): Promise<Verdict> {
  const checker = mutant.checker === "any" ? null : mutant.checker;
  let result: MutantResult;
  try {
    result = await inWorker(label, mutant, { checker, from: 0, seedsAtMost, faultFreeSeeds });
  } catch (error) {
    return { mutant, status: "not judged", why: error instanceof Error ? error.message : String(error) };
  }
  if (result.hashes.length === 0) return { mutant, status: "not judged", why: result.text };
  const differs = product.findIndex((hash, seed) => hash !== result.hashes[seed]);
  if (differs >= 0)
    return { mutant, status: "not judged", why: `differs from the product without faults, seed ${differs}` };
  if (result.killedAt === null) return { mutant, status: "survived", why: `${seedsAtMost} seeds, ${mutant.checker}` };
  return { mutant, status: "killed", why: `${result.checker ?? ""}, ${result.text}` };
}

async function inParallel<T>(jobs: readonly (() => Promise<T>)[]): Promise<T[]> {
  const results: T[] = [];
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < jobs.length) {
      const n = next++;
      results[n] = await jobs[n]!();
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  return results;
}

const { values } = parseArgs({ options: { seeds: { type: "string", default: "2000" }, only: { type: "string" } } });
const seedsAtMost = Number(values.seeds);
const started = process.hrtime.bigint();
const chosen = mutants.filter(({ name }) => name.includes(values.only ?? ""));
const product = await inWorker("product", null, { checker: null, from: 0, seedsAtMost: 0, faultFreeSeeds });
if (product.hashes.length !== faultFreeSeeds) throw new Error(`the product itself does not run: ${product.text}`);
const canarySeeds = Math.min(seedsAtMost, 200);
const verdicts = await inParallel(
  [canaryMutant, ...chosen].map((mutant, n) => async () => {
    const since = process.hrtime.bigint();
    const verdict = await judge(mutant, `mutant-${n}`, n === 0 ? canarySeeds : seedsAtMost, product.hashes);
    const seconds = (Number(process.hrtime.bigint() - since) / 1e9).toFixed(1).padStart(6);
    console.log(`${verdict.status.padEnd(10)} ${seconds} s  ${mutant.name}  [${verdict.why.slice(0, 220)}]`);
    return verdict;
  }),
);
const [bird, ...judged] = verdicts;
if (bird?.status !== "survived") console.log(`the runner itself is wrong: the canary is ${bird?.status ?? "missing"}`);
const named = (status: Verdict["status"]): string[] =>
  judged.filter((one) => one.status === status).map(({ mutant }) => mutant.name);
const survivors = [...named("survived"), ...named("not judged")];
console.log(
  JSON.stringify({
    mutants: judged.length,
    killed: named("killed").length,
    survivors,
    notJudged: named("not judged"),
    canary: bird?.status ?? "missing",
    seconds: Math.round(Number(process.hrtime.bigint() - started) / 1e9),
  }),
);
process.exitCode = survivors.length > 0 || bird?.status !== "survived" ? 1 : 0;
