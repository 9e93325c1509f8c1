// What does not fit into CI's half hour. Each run leaves its report under docs/evidence/, with commit, command, date and machine,
// to be read and committed. `npm run test:long` does all of them (several hours); `npm run test:long -- NAME…` those that are named.
import { mkdirSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { capture, root } from "./shell.mjs";
import { runTier } from "./test/tiers.mjs";

const folder = join(root, "docs", "evidence");

/** A root command, whose last line is JSON. */
const command = (name, ...args) => ({
  text: `npm run ${[name, ...(args.length > 0 ? ["--"] : []), ...args].join(" ")}`,
  async result() {
    const output = capture("npm", ["run", "--silent", name, "--", ...args]).trimEnd();
    console.log(output);
    return JSON.parse(output.slice(output.lastIndexOf("\n") + 1));
  },
});

/** A test file at its full size, in place of the one that CI runs. */
const tests = (tier, file, env) => ({
  text: `${Object.entries(env).map(([name, value]) => `${name}=${value}`)} vitest run --project ${tier} ${file}`,
  async result() {
    const { passed, failed, minutes } = await runTier(tier, { args: [file], env, label: "long" });
    if (failed > 0) throw new Error(`${failed} tests of ${file} failed`);
    return { passed, failed, minutes: Number(minutes.toFixed(1)) };
  },
});

/** name of the report -> how it comes about */
const runs = {
  crash: command("crash", "--kills", "300"),
  // Its own report has the table of what was exercised.
  simulator: command(
    ...["sim", "--seeds", "1000000", "--node", "24"],
    ...["--report", "docs/evidence/simulator-1000000.md"],
  ),
  "simulator-mutants": command("sim:mutants"),
  mutants: command("mutants", "--all"),
  "conformance-memory": command("conformance", "memory"),
  "conformance-fs": command("conformance", "fs"),
  "conformance-s3": command("conformance", "s3"),
  "conformance-gcs": command("conformance", "gcs"),
  "conformance-git": command("conformance", "git"),
  "conformance-matrix": tests("scripted", "packages/testkit/test/scripted/conformance-matrix.test.ts", {
    HOLDFAST_MATRIX: "full",
  }),
  "race-fs": tests("live", "packages/storage-fs/test/live/processes.test.ts", { HOLDFAST_RACE_KEYS: "10000" }),
  "race-s3": tests("live", "packages/storage-s3/test/live/race.test.ts", { HOLDFAST_LONG: "1" }),
  "race-gcs": tests("live", "packages/storage-gcs/test/live/race.test.ts", { HOLDFAST_LONG: "1" }),
  "batches-git": tests("live", "packages/storage-git/test/live/model.test.ts", { HOLDFAST_GIT_RUNS: "1000" }),
  "first-starts": tests("live", "packages/indexer/test/live/schema-order.test.ts", { HOLDFAST_LONG: "1" }),
  "bench-deadlines": command("bench", "deadlines"),
  "bench-upload": command("bench", "upload"),
  "bench-upload-gcs": command("bench", "upload", "--store", "gcs"),
};

const names = process.argv.slice(2);
const unknown = names.filter((name) => !Object.hasOwn(runs, name));
if (unknown.length > 0) {
  console.error(`test:long: there is no ${unknown.join(", ")}; there are: ${Object.keys(runs).join(", ")}`);
  process.exit(2);
}
mkdirSync(folder, { recursive: true });
for (const name of names.length > 0 ? names : Object.keys(runs)) {
  const { text, result } = runs[name];
  console.log(`\n=== ${name}: ${text}`);
  // Before the run: hours later the work tree may be another one.
  const commit = capture("git", ["describe", "--always", "--dirty", "--abbrev=12"]).trim();
  const date = new Date().toISOString().slice(0, 10);
  const machine = `Node ${process.version}, ${availableParallelism()} cores`;
  const report = { command: text, commit, date, machine, result: await result() };
  writeFileSync(join(folder, `${name}.json`), `${JSON.stringify(report, null, 2)}\n`);
}
