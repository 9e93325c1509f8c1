import { fork, type ChildProcess } from "node:child_process";
import { fileURLToPath } from "node:url";
import { until } from "@holdfast-private/tests-machine";

/** A process of a test, and what it has said. */
export class Child implements AsyncDisposable {
  readonly messages: object[] = [];
  readonly process: ChildProcess;

  /** `orders`: given to it as JSON, its only argument. */
  constructor(file: string, orders: object) {
    this.process = fork(fileURLToPath(new URL(file, import.meta.url)), [JSON.stringify(orders)], {
      execArgv: ["--conditions=@holdfast/source", "--import", "tsx"],
    });
    this.process.on("message", (message) => this.messages.push(message as object));
  }

  /** The first thing that it says which has this key. */
  async said<T extends object>(key: keyof T & string): Promise<T> {
    const found = () => this.messages.find((message): message is T => key in message);
    await until(`a process of the test says ${key}`, () => {
      const { exitCode, signalCode, spawnargs } = this.process;
      if (found() !== undefined) return true;
      if (exitCode === null && signalCode === null) return false;
      throw new Error(`${spawnargs.at(-2)} ended with ${exitCode ?? signalCode} before it said ${key}`);
    });
    return found()!;
  }

  tell(message: object): void {
    // One that has ended is found by whoever waits for its answer.
    this.process.send(message, () => undefined);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { exitCode, signalCode } = this.process;
    if (exitCode !== null || signalCode !== null) return;
    const ended = new Promise((resolve) => this.process.once("exit", resolve));
    this.process.kill("SIGKILL");
    await ended;
  }
}
