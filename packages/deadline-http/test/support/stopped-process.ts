// A client in a process of its own that a test stops by a signal or blocks, and the kernel's view of its connections.
import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import { systemClock } from "@holdfast/deadline-http";

const folder = fileURLToPath(new URL("../..", import.meta.url));

export interface StoppedClient<Told> {
  readonly process: ChildProcess;
  /** What it has said so far, a JSON object a line. */
  readonly told: readonly Told[];
  /** It has ended, and all that it said is there. */
  readonly over: Promise<unknown>;
  /** Waits for a condition; fails when the process ends before. */
  until(condition: () => boolean): Promise<void>;
  /** By SIGSTOP; resolves when it stands still. */
  stop(): Promise<void>;
  /** Has it block its event loop; resolves when it does. */
  block(): Promise<void>;
  /** Lets its time go on past the bound (held-clock.ts), and the process with it. */
  goOn(): void;
}

/** Starts a file of this folder; its last argument is the file for which its clock waits. */
export function startClient<Told extends { readonly blocking?: boolean }>(
  file: string,
  ...args: (string | number)[]
): StoppedClient<Told> {
  const path = fileURLToPath(new URL(file, import.meta.url));
  const own = mkdtempSync(join(tmpdir(), "holdfast-stopped-"));
  const goesOn = join(own, "goes-on");
  const client = spawn(
    process.execPath,
    ["--import", "tsx", "--conditions=@holdfast/source", path, ...args.map(String), goesOn],
    { cwd: folder, stdio: ["pipe", "pipe", "inherit"] },
  );
  onTestFinished(() => {
    client.kill("SIGKILL");
    rmSync(own, { recursive: true });
  });
  const told: Told[] = [];
  createInterface(client.stdout).on("line", (line) => told.push(JSON.parse(line) as Told));
  const over = new Promise<unknown>((resolve) => client.once("close", resolve));
  const until = async (condition: () => boolean): Promise<void> => {
    while (!condition()) {
      const { exitCode, signalCode } = client;
      if (exitCode !== null || signalCode !== null) throw new Error(`the child ended with ${exitCode ?? signalCode}`);
      await systemClock.sleep(2);
    }
  };
  return {
    process: client,
    told,
    over,
    until,
    stop: async () => {
      client.kill("SIGSTOP");
      await until(() => /^\d+ \(.*\) [Tt] /s.test(readFileSync(`/proc/${client.pid}/stat`, "latin1")));
    },
    block: async () => {
      client.stdin.write("block\n");
      await until(() => told.some(({ blocking }) => blocking));
    },
    goOn: () => {
      writeFileSync(goesOn, "");
      client.kill("SIGCONT");
    },
  };
}

/** What the kernel holds of the connections between a server's port and its clients', which name them: of each half, in bytes. */
export interface Queues {
  /** At the client: written, and not yet at the server. */
  readonly unsent: ReadonlyMap<number, number>;
  /** At the client: arrived, and not yet read. */
  readonly unread: ReadonlyMap<number, number>;
  /** At the server: arrived, and not yet read. */
  readonly unreadThere: ReadonlyMap<number, number>;
}

const column = /^ *\d+: [0-9A-F]+:([0-9A-F]{4}) [0-9A-F]+:([0-9A-F]{4}) [0-9A-F]{2} ([0-9A-F]{8}):([0-9A-F]{8})/;

/** Both ports count: connections that are over keep theirs for a minute, and other connections get the same. */
export function kernelQueues(serverPort: number): Queues {
  const [unsent, unread, unreadThere] = [
    new Map<number, number>(),
    new Map<number, number>(),
    new Map<number, number>(),
  ];
  for (const line of readFileSync("/proc/net/tcp", "latin1").split("\n")) {
    const [local, remote, out, arrived] = (column.exec(line) ?? []).slice(1).map((hex) => parseInt(hex, 16));
    if (local === undefined || remote === undefined) continue;
    if (remote === serverPort) {
      unsent.set(local, out ?? 0);
      unread.set(local, arrived ?? 0);
    } else if (local === serverPort) unreadThere.set(remote, arrived ?? 0);
  }
  return { unsent, unread, unreadThere };
}
