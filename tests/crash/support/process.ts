import { fork, type ChildProcess } from "node:child_process";
import { fileURLToPath } from "node:url";

/** Starts one of the scripts beside this file from its source. What it writes to stderr is kept for messages. */
export function startScript(name: "victim" | "examine" | "owner"): { readonly child: ChildProcess; stderr(): string } {
  const script = fileURLToPath(new URL(`./${name}.ts`, import.meta.url));
  const child = fork(script, [], {
    execArgv: ["--import", "tsx", "--conditions=@holdfast/source"],
    cwd: fileURLToPath(new URL("../../..", import.meta.url)),
    stdio: ["ignore", "ignore", "pipe", "ipc"],
  });
  let stderr = "";
  child.stderr?.setEncoding("utf8").on("data", (text: string) => (stderr = (stderr + text).slice(-4000)));
  return { child, stderr: () => stderr };
}

export function exited(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
  return new Promise((resolve) => child.once("exit", () => resolve()));
}
