// The built packages' unit tests on each Node that is supported.
import { writeResult } from "./result.mjs";
import { install } from "./setup.mjs";
import { printFailures, printTable, resultOf } from "./test/summary.mjs";
import { runTier } from "./test/tiers.mjs";

await install();
const results = [];
for (const version of ["20", "22", "24"]) {
  results.push(
    await runTier("unit", {
      label: `unit on Node ${version} (dist)`,
      node: ["npx", "--yes", `node@${version}`],
      env: { HOLDFAST_TEST_TARGET: "dist" },
    }),
  );
}
printFailures(results);
printTable(results);
writeResult(resultOf(results));
process.exitCode = results.some(({ failed }) => failed > 0) ? 1 : 0;
