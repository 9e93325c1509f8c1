import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { VirtualClock } from "@holdfast/deadline-http/testing";
import { onTestFinished } from "vitest";
import { runCli } from "../../src/index.js";
import type { Io } from "../../src/io.js";
import { installedPeers, type Peers } from "../../src/peers.js";

/** A directory that is removed after the test. */
export function tempDir(): string {
  const dir = mkdtempSync(join(tmpdir(), "holdfast-cli-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

/** What a run of the command wrote, in this process and without a terminal. */
export interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** An Io that remembers, around a clock that nobody moves. */
export function testIo(o: Partial<Pick<Io, "env" | "cwd" | "signal">> = {}): {
  io: Io;
  out: () => string;
  err: () => string;
} {
  const written = { out: "", err: "" };
  const sink = (name: keyof typeof written) => ({ write: (text: string) => (written[name] += text) });
  const io: Io = {
    out: sink("out"),
    err: sink("err"),
    env: o.env ?? {},
    cwd: o.cwd ?? tmpdir(),
    clock: new VirtualClock(),
    signal: o.signal ?? new AbortController().signal,
  };
  return { io, out: () => written.out, err: () => written.err };
}

/** Runs one command line. */
export async function run(
  argv: readonly string[],
  o: Partial<Pick<Io, "env" | "cwd" | "signal">> & { peers?: Peers } = {},
): Promise<Ran> {
  const { io, out, err } = testIo(o);
  const code = await runCli(argv, io, o.peers ?? installedPeers);
  return { code, out: out(), err: err() };
}
