import { fork, type ChildProcess } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";

/** The programs beside this file that run in processes of their own. */
type Name = "victim" | "examine" | "owner";

/** A process of one of them. */
export type Started = {
  readonly child: ChildProcess;
  /** The end of what it wrote to stderr. */
  stderr(): string;
  /** Resolves when it has ended and all that it reported and wrote has arrived here. */
  readonly closed: Promise<void>;
};

/**
 * Each program and all that it imports as one file: a process of it starts with a fraction of the work that a loader of sources needs,
 * and the campaign starts a hundred of them.
 */
export class Scripts implements AsyncDisposable {
  private constructor(private readonly directory: string) {}

  static async build(...names: readonly Name[]): Promise<Scripts> {
    const directory = await mkdtemp(join(tmpdir(), "holdfast-crash-scripts-"));
    const input = Object.fromEntries(
      names.map((name) => [name, fileURLToPath(new URL(`${name}.ts`, import.meta.url))]),
    );
    await build({
      root: fileURLToPath(new URL("../../..", import.meta.url)),
      configFile: false,
      logLevel: "error",
      ssr: { noExternal: true, resolve: { conditions: ["@holdfast/source"] } },
      resolve: { conditions: ["@holdfast/source"] },
      build: {
        ssr: true,
        outDir: directory,
        emptyOutDir: false,
        minify: false,
        target: "node20",
        rolldownOptions: { input, output: { entryFileNames: "[name].mjs", chunkFileNames: "[name].mjs" } },
      },
    });
    return new Scripts(directory);
  }

  /** Starts one, under another program where `o.under` names one with its arguments. */
  start(name: Name, o: { readonly under?: readonly [string, ...string[]] } = {}): Started {
    const [execPath = process.execPath, ...execArgv] = o.under === undefined ? [] : [...o.under, process.execPath];
    const child = fork(join(this.directory, `${name}.mjs`), [], {
      execPath,
      execArgv,
      stdio: ["ignore", "ignore", "pipe", "ipc"],
    });
    let stderr = "";
    child.stderr?.setEncoding("utf8").on("data", (text: string) => (stderr = (stderr + text).slice(-4000)));
    const closed = Promise.all(
      ["close", "disconnect"].map((event) => new Promise<void>((resolve) => child.once(event, () => resolve()))),
    ).then(() => undefined);
    return { child, stderr: () => stderr, closed };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.directory, { recursive: true, force: true });
  }
}

/** Resolves when a process has ended. */
export function exited(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
  return new Promise((resolve) => child.once("exit", () => resolve()));
}
