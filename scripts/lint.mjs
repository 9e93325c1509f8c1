// Lint: formatting, type-aware rules, arrows and cycles between packages, unused code, turbo's own boundaries.
import { check, report } from "./checks.mjs";
import { bin, pnpm } from "./shell.mjs";

report([
  await check("formatting (prettier)", bin("prettier"), ["--check", "--log-level", "warn", "."]),
  await check("rules with type information (eslint)", bin("eslint"), ["--max-warnings", "0", "."]),
  await check("arrows and cycles (dependency-cruiser)", bin("depcruise"), [
    "--config",
    ".dependency-cruiser.cjs",
    "packages",
  ]),
  await check("unused code and dependencies (knip)", bin("knip"), ["--no-progress"]),
  await check("package cycles (turbo)", pnpm[0], [...pnpm.slice(1), "exec", "turbo", "boundaries"]),
]);
