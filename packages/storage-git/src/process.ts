import { spawn, type ChildProcess } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import type { Clock } from "@holdfast/deadline-http";

/** How a process ended, and its output. `code` is null when a signal ended it. */
export type Ended = { readonly code: number | null; readonly stdout: Buffer; readonly stderr: string };

/** A process that was started together with all that it starts. */
export type Running = {
  /** Resolves when the process and everything that holds its output have ended; rejects when it could not be started. */
  readonly ended: Promise<Ended>;
  /** Ends the process with its children: asks first, so that git removes its lock files, and kills what is left `graceMs` later. */
  end(): void;
};

/** How long git may take to remove its lock files after it was asked to end. */
export const graceMs = 5_000;
/** More of what a process complains about is not kept. */
const stderrCharsMax = 16_384;

/**
 * Starts a program in a process group of its own. `input` is its standard input; `secret`, when given, is what it and its children can read once
 * from descriptor 3: it is neither in the arguments nor in the environment nor in a file.
 */
export function startProcess(
  command: { readonly program: string; readonly args: readonly string[]; readonly cwd: string },
  o: {
    readonly env: Readonly<Record<string, string>>;
    readonly input: readonly Uint8Array[];
    readonly secret: string | null;
    readonly clock: Pick<Clock, "setTimer">;
  },
): Running {
  const stdio = ["pipe", "pipe", "pipe", ...(o.secret === null ? [] : (["pipe"] as const))] as const;
  const child = spawn(command.program, command.args, {
    cwd: command.cwd,
    env: o.env,
    detached: true,
    stdio: [...stdio],
  });
  give(child.stdin, o.input);
  if (o.secret !== null) give(child.stdio[3] as Writable, [Buffer.from(o.secret)]);
  const ended = collect(child);
  return { ended, end: () => endGroup(child, o.clock, ended) };
}

/** A process that ends without reading all of its input says so by its exit code. */
function give(stream: Writable | null, pieces: readonly Uint8Array[]): void {
  stream?.on("error", () => undefined);
  for (const piece of pieces) stream?.write(piece);
  stream?.end();
}

function collect(child: ChildProcess): Promise<Ended> {
  const out: Buffer[] = [];
  let stderr = "";
  child.stdout?.on("data", (piece: Buffer) => out.push(piece));
  child.stderr?.setEncoding("utf8").on("data", (piece: string) => {
    if (stderr.length < stderrCharsMax) stderr += piece;
  });
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => resolve({ code, stdout: Buffer.concat(out), stderr }));
  });
}

function endGroup(child: ChildProcess, clock: Pick<Clock, "setTimer">, ended: Promise<unknown>): void {
  const { pid } = child;
  if (pid === undefined) return;
  signalGroup(pid, "SIGTERM");
  const timer = clock.setTimer(graceMs, () => {
    signalGroup(pid, "SIGKILL");
    for (const stream of child.stdio) (stream as Readable | null)?.destroy();
  });
  const over = (): void => timer.cancel();
  void ended.then(over, over);
}

function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal);
  } catch {
    // The whole group has ended already.
  }
}
