// One documentation site over all packages; a link that leads nowhere fails the build.
import { check, report } from "./checks.mjs";
import { bin } from "./shell.mjs";

report([await check("documentation site (typedoc)", bin("typedoc"), ["--treatWarningsAsErrors"])]);
