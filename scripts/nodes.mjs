// The built packages' unit tests on the supported Nodes that are newer than the oldest one, on which everything else runs.
import { writeResult } from "./result.mjs";
import { install } from "./setup.mjs";
import { commandFor, printFailures, printTable, resultOf } from "./test/summary.mjs";
import { runTier } from "./test/tiers.mjs";

await install();
const results = [];
for (const version of ["22", "24"]) {
  const node = ["npx", "--yes", `node@${version}`];
  const env = { HOLDFAST_TEST_TARGET: "dist" };
  const result = await runTier("unit", { label: `unit on Node ${version} (dist)`, node, env });
  const before = `HOLDFAST_TEST_TARGET=dist ${node.join(" ")} node_modules/vitest/vitest.mjs run --project unit`;
  const alone = (file, name, suite) => commandFor(file, name, suite, before);
  results.push({ ...result, failures: result.failures.map((failure) => ({ ...failure, alone })) });
}
printFailures(results);
printTable(results);
writeResult(resultOf(results));
process.exitCode = results.some(({ failed }) => failed > 0) ? 1 : 0;
