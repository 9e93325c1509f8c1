// A client in a process of its own that a test stops by a signal or blocks, and the kernel's view of its connections.
import { spawn, type ChildProcess } from "node:child_process";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import { systemClock } from "@holdfast/deadline-http";

const folder = fileURLToPath(new URL("../..", import.meta.url));

/** Starts a file of this folder; `told` answers what it says, a JSON object a line, as far as it has. */
export function startClient(file: string, ...args: (string | number)[]) {
  const path = fileURLToPath(new URL(file, import.meta.url));
  const started = spawn(
    process.execPath,
    ["--import", "tsx", "--conditions=@holdfast/source", path, ...args.map(String)],
    { cwd: folder, stdio: ["pipe", "pipe", "inherit"] },
  );
  onTestFinished(() => void started.kill("SIGKILL"));
  const told: unknown[] = [];
  createInterface(started.stdout).on("line", (line) => told.push(JSON.parse(line)));
  const over = new Promise<unknown>((resolve) => started.once("close", resolve));
  return { process: started as ChildProcess, told, over };
}

export async function until(client: ChildProcess, condition: () => boolean): Promise<void> {
  while (!condition()) {
    const { exitCode, signalCode } = client;
    if (exitCode !== null || signalCode !== null) throw new Error(`the child ended with ${exitCode ?? signalCode}`);
    await systemClock.sleep(2);
  }
}

export async function stop(client: ChildProcess): Promise<void> {
  client.kill("SIGSTOP");
  await until(client, () => /^\d+ \(.*\) [Tt] /s.test(readFileSync(`/proc/${client.pid}/stat`, "latin1")));
}

/** Bytes that lie in the kernel's queues of the connection whose local port this is. */
export function queued(port: number): { unsent: number; unread: number } {
  const local = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  for (const line of readFileSync("/proc/net/tcp", "latin1").split("\n").slice(1)) {
    const [, address, , , queues] = line.trim().split(/\s+/);
    if (!address?.endsWith(local)) continue;
    const [unsent = 0, unread = 0] = (queues ?? "").split(":").map((hex) => parseInt(hex, 16));
    return { unsent, unread };
  }
  return { unsent: 0, unread: 0 };
}
