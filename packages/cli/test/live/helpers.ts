import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { systemClock } from "@holdfast/deadline-http";
import { onTestFinished } from "vitest";
import { runCli } from "../../src/index.js";
import { installedPeers, type Peers } from "../../src/peers.js";

const bin = fileURLToPath(new URL("../../src/bin.ts", import.meta.url));
const built = fileURLToPath(new URL("../../dist/bin.js", import.meta.url));
// The sources run as they are; with HOLDFAST_TEST_TARGET=dist the built command runs as a user would have it.
const nodeArguments =
  process.env["HOLDFAST_TEST_TARGET"] === "dist"
    ? [built]
    : ["--import", import.meta.resolve("tsx"), "--conditions=@holdfast/source", bin];

/** A directory that is removed after the test. */
export function tempDir(): string {
  const dir = mkdtempSync(join(tmpdir(), "holdfast-cli-live-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

/** What a command wrote and how it ended. */
export interface Ran {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

/** A `holdfast` command in a process of its own. */
export class Running {
  readonly #child;
  readonly #ended: Promise<number | null>;
  #out = "";
  #err = "";
  #onOutput = (): void => undefined;

  constructor(argv: readonly string[], o: { env?: Record<string, string>; cwd?: string } = {}) {
    const env = { PATH: process.env["PATH"], HOME: process.env["HOME"], ...o.env };
    this.#child = spawn(process.execPath, [...nodeArguments, ...argv], { env, cwd: o.cwd ?? tmpdir(), stdio: "pipe" });
    this.#child.stdin.end();
    this.#child.stdout.setEncoding("utf8").on("data", (text: string) => {
      this.#out += text;
      this.#onOutput();
    });
    this.#child.stderr.setEncoding("utf8").on("data", (text: string) => (this.#err += text));
    this.#ended = new Promise((done, failed) => {
      this.#child.once("error", failed).once("close", (code) => {
        done(code);
        this.#onOutput();
      });
    });
  }

  /** Resolves with the match as soon as the output so far has it; rejects when the command ends without. */
  async prints(pattern: RegExp): Promise<RegExpExecArray> {
    return new Promise((found, failed) => {
      const look = (): void => {
        const match = pattern.exec(this.#out);
        if (match !== null) found(match);
        else if (this.#child.exitCode !== null)
          failed(new Error(`ended without ${String(pattern)}: ${this.#out}${this.#err}`));
      };
      this.#onOutput = look;
      look();
    });
  }

  interrupt(): void {
    this.#child.kill("SIGINT");
  }

  async end(): Promise<Ran> {
    const code = await this.#ended;
    return { code, out: this.#out, err: this.#err };
  }
}

/** Runs one command line to its end in a process of its own. */
export function holdfastProcess(
  argv: readonly string[],
  o: { env?: Record<string, string>; cwd?: string } = {},
): Promise<Ran> {
  return new Running(argv, o).end();
}

/** Runs one command line to its end in this process: what bin.ts does, without the seconds that a process needs to start. */
export async function holdfast(
  argv: readonly string[],
  o: {
    env?: Record<string, string>;
    cwd?: string;
    signal?: AbortSignal;
    peers?: Peers;
    /** Called with all that the command has written to its output. */
    onOut?: (out: string) => void;
  } = {},
): Promise<Ran> {
  const written = { out: "", err: "" };
  const sink = (name: keyof typeof written) => ({
    write: (text: string) => {
      written[name] += text;
      if (name === "out") o.onOut?.(written.out);
    },
  });
  const { env = {}, cwd = tmpdir(), signal = new AbortController().signal, peers = installedPeers } = o;
  const io = { env, cwd, clock: systemClock, signal, out: sink("out"), err: sink("err") };
  const code = await runCli(argv, io, peers);
  return { code, ...written };
}

/** Flags for a command that is to be answered, however slow the machine is. */
export const patient: readonly string[] = ["--timeout", "600000"];
