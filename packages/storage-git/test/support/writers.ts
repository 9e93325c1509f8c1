// Writers in processes of their own, each with its own clone.
import { spawn, type ChildProcess } from "node:child_process";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { fileURLToPath, pathToFileURL } from "node:url";

/** One thing that the body of a batch does. `base: "HEAD"` is the commit that the batch is on. */
export type Step =
  | ({ readonly write: string; readonly text: string } & StepOptions)
  | ({ readonly remove: string } & StepOptions)
  | { readonly read: string }
  | { readonly list: string }
  /** Stops until the test opens it. */
  | { readonly gate: string }
  | { readonly throw: string }
  | { readonly batch: string; readonly steps: readonly Step[]; readonly caught?: boolean };
type StepOptions = {
  readonly base?: string | null;
  readonly message?: string;
  readonly branch?: string;
  readonly caught?: boolean;
};

/** The options of a store that are JSON. */
export type WriterOptions = {
  readonly remote: string;
  readonly directory: string;
  readonly git?: string;
  readonly allowHttp?: boolean;
  readonly credentials?: { readonly username: string; readonly password: string };
  readonly retryBudgetMs?: number;
  readonly requestTimeoutMs?: number;
};

export type Command = { readonly options: WriterOptions } & (
  | { readonly do: "batch"; readonly message: string; readonly steps: readonly Step[] }
  | { readonly do: "read"; readonly path: string }
  | { readonly do: "write"; readonly path: string; readonly text: string; readonly base?: string | null }
  | { readonly do: "remove"; readonly path: string; readonly base?: string | null }
  | { readonly do: "put"; readonly path: string; readonly text: string; readonly mode: "create" | "overwrite" }
);

/** How a command ended. */
export type Answer = {
  readonly result?: {
    readonly value?: unknown;
    readonly changed?: boolean;
    readonly commits?: readonly string[];
    readonly revision?: string | null;
    readonly text?: string | null;
    readonly outcome?: string;
    readonly etag?: string | null;
    readonly error?: string | null;
  };
  readonly error?: {
    readonly name: string;
    readonly code: string;
    readonly message: string;
    readonly status?: number | undefined;
    readonly path?: string | undefined;
    readonly current?: string | null | undefined;
    readonly head?: string | null | undefined;
    readonly outcome?: string | undefined;
  };
};

const file = fileURLToPath(new URL("writer.ts", import.meta.url));
const tsx = pathToFileURL(createRequire(import.meta.url).resolve("tsx")).href;
// Before tsx, so that it sees the source as it is written.
const mutant = new URL("mutant-hook.mjs", import.meta.url).href;
const conditions = process.env["HOLDFAST_TEST_TARGET"] === "dist" ? [] : ["--conditions=@holdfast/source"];

export class RemoteWriter {
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;
  readonly exited: Promise<void>;

  constructor() {
    const child = spawn(process.execPath, [...conditions, "--import", mutant, "--import", tsx, file], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    this.#child = child;
    this.#lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    this.exited = new Promise((resolve) => child.once("exit", () => resolve()));
  }

  /** A process that is ready for commands. */
  static async start(): Promise<RemoteWriter> {
    const writer = new RemoteWriter();
    await writer.#line();
    return writer;
  }

  async run(command: Command): Promise<Answer> {
    this.#send(command);
    return (await this.#line()) as Answer;
  }

  /** Starts a batch that stops at a gate, and waits until it has come there. */
  async toGate(command: Command): Promise<void> {
    this.#send(command);
    await this.#nextGate();
  }

  async #nextGate(): Promise<void> {
    const line = (await this.#line()) as { gate?: string };
    if (line.gate === undefined) throw new Error(`no gate was reached: ${JSON.stringify(line)}`);
  }

  /** Opens the gate that was reached; how the command ends. */
  async open(gate: string): Promise<Answer> {
    this.#send({ open: gate });
    return (await this.#line()) as Answer;
  }

  /** Opens the gate that was reached, and waits for the next one. */
  async pass(gate: string): Promise<void> {
    this.#send({ open: gate });
    await this.#nextGate();
  }

  /** Sends a command whose writer will not live to answer it. */
  send(command: Command): void {
    this.#send(command);
  }

  async stop(): Promise<void> {
    this.#child.stdin?.end();
    await this.exited;
  }

  kill(): void {
    this.#child.kill("SIGKILL");
  }

  #send(message: unknown): void {
    this.#child.stdin?.write(`${JSON.stringify(message)}\n`);
  }

  async #line(): Promise<unknown> {
    const next = await this.#lines.next();
    if (next.done === true) throw new Error("the writer has ended without an answer");
    return JSON.parse(next.value) as unknown;
  }
}
