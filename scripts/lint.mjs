// Lint: formatting, type-aware rules, arrows and cycles between packages, unused code.
import { check, checkThat, report } from "./checks.mjs";
import { checkLists } from "./mutants/lists.mjs";
import { bin } from "./shell.mjs";
import { packageCycle } from "./workspace.mjs";

report([
  await check("formatting (prettier)", bin("prettier"), ["--check", "--log-level", "warn", "."]),
  await check("rules with type information (eslint)", bin("eslint"), ["--max-warnings", "0", "."]),
  await check("arrows and cycles (dependency-cruiser)", bin("depcruise"), [
    "--config",
    ".dependency-cruiser.cjs",
    "packages",
  ]),
  await check("unused code and dependencies (knip)", bin("knip"), ["--no-progress"]),
  await checkThat("each mutant's text stands once in its source", checkLists),
  await checkThat("no cycle between packages, development dependencies included", async () => {
    const cycle = packageCycle();
    if (cycle !== null) throw new Error(`${cycle.join(" -> ")}: break one of these arrows`);
  }),
]);
