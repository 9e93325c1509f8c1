import type { ChildProcess } from "node:child_process";
import { rm } from "node:fs/promises";
import { EmbeddedError } from "./errors.js";
import type { FromChild, StartMessage, ToChild } from "./messages.js";
import { explainOpenFailure } from "./open-failure.js";
import type { RecentQuery } from "./recent-log.js";
import { systemClock } from "./system-clock.js";

/** A running embedded server. It keeps this process alive until it is stopped. */
export interface EmbeddedClickHouse extends AsyncDisposable {
  /** `http://127.0.0.1:PORT`, for `createClient({ url })`. */
  readonly url: string;
  /** Process id of the server. */
  readonly pid: number;
  /**
   * Where the data lies. A directory given as `dataDir` may be opened by another server once this one has ended; a temporary one is
   * removed, with its data, when this server ends, however it ends.
   */
  readonly dataDir: string;
  /**
   * Ends the server: open connections are cut and their queries ended. Takes 5 seconds at most, then the process is killed, which loses
   * nothing that was acknowledged. Idempotent; also after the process has ended by itself.
   */
  stop(): Promise<void>;
  /** The last 1000 queries, oldest first. ENGINE_EXITED once the process has ended. */
  recentQueries(): Promise<readonly RecentQuery[]>;
}

const stopGraceMs = 5000;
const stderrMax = 4096;

type Ask = { readonly resolve: (q: readonly RecentQuery[]) => void; readonly reject: (e: Error) => void };

/** The parent's side of the channel to the server's process. */
export class EmbeddedHandle implements EmbeddedClickHouse {
  readonly dataDir: string;
  readonly pid: number;
  url = "";
  readonly #child: ChildProcess;
  readonly #temporary: boolean;
  readonly #exited: Promise<void>;
  readonly #asked = new Map<number, Ask>();
  #stderr = "";
  #hasExited = false;
  #stopping: Promise<void> | null = null;
  #nextId = 0;

  constructor(child: ChildProcess, o: { readonly dataDir: string; readonly temporary: boolean }) {
    this.#child = child;
    this.dataDir = o.dataDir;
    this.#temporary = o.temporary;
    this.pid = child.pid ?? -1;
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.#stderr = (this.#stderr + text).slice(-stderrMax);
    });
    this.#exited = new Promise((resolve) => {
      const end = (): void => {
        this.#hasExited = true;
        for (const { reject } of this.#asked.values()) reject(this.#exitError());
        this.#asked.clear();
        resolve();
      };
      // Not "exit": what it printed last must have arrived.
      child.once("close", end);
      child.once("error", end);
    });
    child.on("message", (m: FromChild) => {
      if (m.type !== "recent") return;
      this.#asked.get(m.id)?.resolve(m.queries);
      this.#asked.delete(m.id);
    });
  }

  /** Resolves once the server answers requests. The errors of startEmbeddedClickHouse. */
  async start(message: StartMessage, signal: AbortSignal | undefined): Promise<void> {
    let failed = false;
    let onAbort = (): void => undefined;
    try {
      await new Promise<void>((resolve, reject) => {
        onAbort = () => reject(canceled(signal));
        if (signal?.aborted === true) onAbort();
        signal?.addEventListener("abort", onAbort, { once: true });
        this.#child.on("message", (m: FromChild) => {
          if (m.type === "up") this.#send(message);
          if (m.type === "failed") {
            failed = true;
            void this.#startError(m).then(reject);
          }
          if (m.type !== "ready") return;
          this.url = `http://127.0.0.1:${m.port}`;
          resolve();
        });
        void this.#exited.then(() => {
          const text = `the server's process ended before it was ready. ${this.#lastWords()}`;
          if (!failed) reject(new EmbeddedError("ENGINE_FAILED", text));
        });
      });
    } finally {
      signal?.removeEventListener("abort", onAbort);
    }
  }

  async #startError(m: Extract<FromChild, { type: "failed" }>): Promise<EmbeddedError> {
    const error = new EmbeddedError(m.code, m.message);
    if (!m.opening) return error;
    this.#send({ type: "stop" });
    await this.#exited;
    return explainOpenFailure(error, this.#stderr, this.dataDir);
  }

  #send(message: ToChild): void {
    // A channel that has closed comes with the exit event, which tells the same.
    this.#child.send(message, () => undefined);
  }

  #lastWords(): string {
    const { exitCode, signalCode } = this.#child;
    const how = signalCode === null ? `Exit code ${exitCode ?? "unknown"}.` : `Ended by ${signalCode}.`;
    return `${how} ${this.#stderr.trim()}`.trim();
  }

  #exitError(): EmbeddedError {
    const next = this.#temporary
      ? `its data was in a temporary directory and is gone with it; start another one, with dataDir if data is to be kept`
      : `start another one on ${this.dataDir}`;
    return new EmbeddedError(
      "ENGINE_EXITED",
      `the server's process (pid ${this.pid}) has ended; ${next}. ${this.#lastWords()}`,
    );
  }

  recentQueries(): Promise<readonly RecentQuery[]> {
    if (this.#hasExited) return Promise.reject(this.#exitError());
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      this.#asked.set(id, { resolve, reject });
      this.#send({ type: "recent", id });
    });
  }

  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async #stop(): Promise<void> {
    if (!this.#hasExited) {
      this.#send({ type: "stop" });
      const timer = systemClock.after(stopGraceMs, () => this.#child.kill("SIGKILL"));
      await this.#exited;
      timer.cancel();
    }
    if (this.#temporary) await rm(this.dataDir, { recursive: true, force: true, maxRetries: 3 });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}

/** The error of a start that its signal ended. */
export const canceled = (signal: AbortSignal | undefined): EmbeddedError =>
  new EmbeddedError("CANCELED", "the start of the server was canceled by its signal", { cause: signal?.reason });
