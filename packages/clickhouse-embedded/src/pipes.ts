import { execFile } from "node:child_process";
import { closeSync, constants, openSync } from "node:fs";
import { Socket } from "node:net";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { promisify } from "node:util";

/**
 * A named pipe through which the engine writes one result at a time (INTO OUTFILE): so results stream with back-pressure in every format,
 * and no call of the engine blocks this process's event loop, as its own streaming start does.
 */
export class ResultPipe {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  /**
   * Opens both ends. Our own writing end keeps the stream from ending before the engine has opened its; `finish` closes it. `close` resolves
   * when no end of ours is open: what is unread is gone then, and the next result cannot meet it.
   */
  open(): { readonly stream: Readable; finish(): void; close(): Promise<void> } {
    const reading = openSync(this.path, constants.O_RDONLY | constants.O_NONBLOCK);
    const writing = openSync(this.path, constants.O_WRONLY | constants.O_NONBLOCK);
    const stream = new Socket({ fd: reading, readable: true, writable: false });
    let finished = false;
    const finish = (): void => {
      if (finished) return;
      finished = true;
      closeSync(writing);
    };
    const closed = new Promise<void>((resolve) => stream.once("close", () => resolve()));
    const close = async (): Promise<void> => {
      finish();
      stream.destroy();
      await closed;
    };
    return { stream, finish, close };
  }
}

/** As many pipes as queries may run at once. */
export class PipePool {
  readonly #free: ResultPipe[];

  private constructor(pipes: ResultPipe[]) {
    this.#free = pipes;
  }

  static async create(directory: string, count: number): Promise<PipePool> {
    const paths = Array.from({ length: count }, (_, i) => join(directory, `result-${String(i)}.pipe`));
    // Node cannot make a pipe with a name; the tool is part of every POSIX system.
    await promisify(execFile)("mkfifo", ["-m", "600", ...paths]);
    return new PipePool(paths.map((path) => new ResultPipe(path)));
  }

  take(): ResultPipe {
    const pipe = this.#free.pop();
    if (pipe === undefined) throw new Error("more results than slots: a slot was released before its pipe");
    return pipe;
  }

  /** Only once the engine's call has settled: until then it may still write. */
  give(pipe: ResultPipe): void {
    this.#free.push(pipe);
  }
}
