// Types of sources and tests of every workspace package, through turbo so that what did not change is not done again.
import { check, report } from "./checks.mjs";
import { pnpm } from "./shell.mjs";

report([
  await check("types (tsc)", pnpm[0], [
    ...pnpm.slice(1),
    "exec",
    "turbo",
    "run",
    "typecheck",
    "--concurrency=2",
    "--output-logs=errors-only",
  ]),
]);
