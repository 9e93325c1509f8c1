#!/usr/bin/env node
import { systemClock } from "@holdfast/deadline-http";
import { runCli } from "./program.js";

// Of the end of Node 20 the AWS SDK would tell on standard error, in between our own lines.
process.env["AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED"] ??= "true";

const stop = new AbortController();
// The first signal asks for a clean stop; `once`, so that a second one ends the process as usual.
for (const name of ["SIGINT", "SIGTERM"] as const)
  process.once(name, () => stop.abort(new Error(`stopped by ${name}`)));

// `holdfast search ... | head` closes our output early; that is no error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
  process.exit(0);
});

process.exitCode = await runCli(process.argv.slice(2), {
  out: process.stdout,
  err: process.stderr,
  env: process.env,
  cwd: process.cwd(),
  clock: systemClock,
  signal: stop.signal,
});
