// Goal: a process that was stopped past a deadline uses a reply that came meanwhile, and says how late it was where none
// did. Method: a child with requests under way is stopped by SIGSTOP, in its poll phase or amid JavaScript, the replies
// arrive in its sockets (read from the kernel's table), and it goes on when the deadline is past.
import { spawn, type ChildProcess } from "node:child_process";
import { readFileSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";
import { systemClock } from "@holdfast/deadline-http";
import { withServer, type Answer } from "../support/scripted-server.js";

const boundMs = 2_000;
const lateMs = 300;
const child = fileURLToPath(new URL("../support/stopped.ts", import.meta.url));
const folder = fileURLToPath(new URL("../..", import.meta.url));

interface End {
  readonly kind: string;
  readonly answer: "reply" | "silence";
  readonly answered: boolean;
  readonly tookMs: number;
  readonly code?: string;
  readonly outcome?: string;
  readonly message?: string;
}
type Told = Partial<End> & { readonly ready?: number; readonly blocking?: boolean };

/** Starts the child; `told` answers what it says, as far as it has. */
function start(url: string): { process: ChildProcess; told: Told[]; over: Promise<unknown> } {
  const started = spawn(
    process.execPath,
    ["--import", "tsx", "--conditions=@holdfast/source", child, url, String(boundMs)],
    { cwd: folder, stdio: ["pipe", "pipe", "inherit"] },
  );
  onTestFinished(() => void started.kill("SIGKILL"));
  const told: Told[] = [];
  createInterface(started.stdout).on("line", (line) => told.push(JSON.parse(line) as Told));
  return { process: started, told, over: new Promise((resolve) => started.once("close", resolve)) };
}

async function until(client: ChildProcess, condition: () => boolean): Promise<void> {
  while (!condition()) {
    if (client.exitCode !== null) throw new Error(`the child ended with ${client.exitCode}`);
    await systemClock.sleep(2);
  }
}

const isStopped = ({ pid }: ChildProcess): boolean =>
  /^\d+ \(.*\) [Tt] /s.test(readFileSync(`/proc/${pid}/stat`, "latin1"));

/** Bytes that lie in the receive queue of the connection whose local port this is, by the kernel's table. */
function unread(port: number): number {
  const local = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  for (const line of readFileSync("/proc/net/tcp", "latin1").split("\n").slice(1)) {
    const [, address, , , queues] = line.trim().split(/\s+/);
    if (address?.endsWith(local)) return parseInt(queues?.split(":")[1] ?? "0", 16);
  }
  return 0;
}

async function stopped(amid: "poll" | "javascript"): Promise<End[]> {
  const held: { response: ServerResponse; reply: boolean; port: number }[] = [];
  const server: Answer = (response, { statement }) => {
    if (statement.includes("first")) response.end('{"a":"1"}\n');
    else held.push({ response, reply: statement.includes("reply"), port: response.socket?.remotePort ?? 0 });
  };
  return withServer([server], async ({ url }) => {
    const { process: client, told, over } = start(url);
    const count = (): number => told.find(({ ready }) => ready !== undefined)?.ready ?? Infinity;
    await until(client, () => held.length >= count());
    const arrivedAt = systemClock.now();
    if (amid === "javascript") {
      client.stdin?.write("block\n");
      await until(client, () => told.some(({ blocking }) => blocking));
    }
    client.kill("SIGSTOP");
    await until(client, () => isStopped(client));
    expect(
      told.some(({ kind }) => kind !== undefined),
      "it ended before it was stopped",
    ).toBe(false);
    const replies = held.filter(({ reply }) => reply);
    for (const { response } of replies) response.end('{"a":"1"}\n');
    await until(client, () => replies.every(({ port }) => unread(port) > 0));
    await systemClock.sleep(arrivedAt + boundMs + lateMs - systemClock.now());
    client.kill("SIGCONT");
    await over;
    return told.filter((one): one is End => one.kind !== undefined);
  });
}

describe.runIf(process.platform === "linux").each(["poll", "javascript"] as const)("stopped amid its %s", (amid) => {
  it("DL-29 replies that lie in the sockets are used, and without one the error says how late the loop was", async () => {
    const ends = await stopped(amid);
    expect(ends).toHaveLength(10);
    for (const end of ends) {
      expect(end.tookMs, end.kind).toBeGreaterThan(boundMs);
      if (end.answer === "reply") {
        expect(end, end.kind).toMatchObject({ answered: true });
        continue;
      }
      expect(end, end.kind).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "unknown" });
      const [, told] = /the event loop was (\d+) ms late/.exec(end.message ?? "") ?? [];
      expect(Number(told), `${end.kind}: ${end.message}`).toBeGreaterThanOrEqual(lateMs - 20);
    }
  });
});
