// `npm run test:busy -- --loops 8 [--all] [what `npm test` takes]`: tests beside busy loops, to show that no test depends on a quiet machine.
import { spawn } from "node:child_process";
import { availableParallelism } from "node:os";
import { runTests } from "./run.mjs";

const usage = "npm run test:busy -- --loops N [--all] [--tier NAME] [FILE…] [-t TITLE]";

/** As {@link runTests}; `signal` likewise. */
export async function runBusy(args, { signal } = {}) {
  const at = args.indexOf("--loops");
  const loops = Number(args[at + 1]);
  if (at < 0 || !Number.isInteger(loops) || loops < 1 || loops > 200)
    throw new Error(
      `--loops must be a whole number from 1 to 200, not ${JSON.stringify(args[at + 1] ?? "")}: ${usage}`,
    );
  const rest = args.toSpliced(at, 2);
  const children = Array.from({ length: loops }, () =>
    // Each ends by itself when this process is gone, however it went.
    spawn(process.execPath, ["-e", "while (process.ppid === Number(process.argv[1]));", String(process.pid)], {
      stdio: "ignore",
    }),
  );
  const end = () => {
    for (const child of children) child.kill("SIGKILL");
  };
  process.on("exit", end);
  console.error(`holdfast: ${loops} busy loops on ${availableParallelism()} cores`);
  try {
    const part = rest.includes("--all") ? "all" : "quick";
    return await runTests(
      rest.filter((arg) => arg !== "--all"),
      { part, signal },
    );
  } finally {
    process.off("exit", end);
    end();
  }
}
