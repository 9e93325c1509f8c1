// The built packages' unit tests on each Node that is supported.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { install } from "./setup.mjs";
import { root } from "./shell.mjs";
import { printFailures, printTable } from "./test/summary.mjs";
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
mkdirSync(join(root, "temp", "reports"), { recursive: true });
const sum = (key) => results.reduce((total, r) => total + r[key], 0);
writeFileSync(
  join(root, "temp", "reports", "check-nodes.json"),
  JSON.stringify({
    passed: sum("passed"),
    failed: sum("failed"),
    failures: results.flatMap(({ failures }) => failures),
  }),
);
process.exitCode = sum("failed") > 0 ? 1 : 0;
