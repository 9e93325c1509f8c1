// Whether a bound holds: calls of every client into every fault, ours and the bare SDK's with its own time limits at the same
// value, judged by the byte log of a proxy. The proxy and its server, and the callers, are processes of their own. Reported,
// never judged.
import { fork, type ChildProcess } from "node:child_process";
import { loadavg } from "node:os";
import { fileURLToPath } from "node:url";
import type { Benchmark } from "../benchmark.js";
import type { Order, Result } from "./caller.js";
import { boundMs, cutMs, type Log, type Places } from "./cases.js";
import { report } from "./report.js";

const start = (file: string): ChildProcess =>
  fork(fileURLToPath(new URL(file, import.meta.url)), {
    execArgv: process.execArgv,
    // It tells of Node 20's end on the console.
    env: { ...process.env, AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: "true" },
  });

/** The next message of a child; its end is an error. */
const message = <T>(child: ChildProcess): Promise<T> =>
  new Promise((resolve, reject) => {
    const died = (code: number | null): void =>
      reject(new Error(`a process of the benchmark ended with ${String(code)}`));
    child.once("exit", died);
    child.once("message", (value) => {
      child.off("exit", died);
      resolve(value as T);
    });
  });

async function called(order: Order): Promise<Result> {
  const caller = start("caller.ts");
  try {
    await message(caller);
    caller.send(order);
    return await message<Result>(caller);
  } finally {
    // What was given up may go on for ever.
    caller.kill("SIGKILL");
  }
}

export const deadlines: Benchmark = async ({ quick }) => {
  const scale = quick ? 0.1 : 1;
  const [oursCount, bareCount] = [10_000 * scale, 4 * 300 * scale];
  console.log(
    `deadlines: ${oursCount} faulted calls of ours, ${bareCount} of the bare SDKs, bound ${boundMs} ms, at most 64 at once, ` +
      `cut at ${cutMs} ms; Node ${process.version}, load ${(loadavg()[0] ?? NaN).toFixed(1)}\n`,
  );
  const server = start("server.ts");
  try {
    const places = await message<Places>(server);
    const ours = await called({ who: "ours", count: oursCount, from: 1, places });
    const bare = await called({ who: "bare", count: bareCount, from: oursCount + 1, places });
    server.send("log");
    return report(ours, bare, await message<Log>(server));
  } finally {
    server.kill("SIGKILL");
  }
};
