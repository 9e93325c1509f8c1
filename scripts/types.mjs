// Types of all sources and tests, as one program: tsconfig.json. What a package publishes is compiled alone as well, by its build.
import { check, report } from "./checks.mjs";
import { bin } from "./shell.mjs";

report([await check("types (tsc)", bin("tsc"), ["-p", "tsconfig.json"])]);
