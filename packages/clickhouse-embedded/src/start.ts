import { fork, type ChildProcess } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { EmbeddedError } from "./errors.js";
import type { FromChild, ToChild } from "./messages.js";
import type { RecentQuery } from "./recent-log.js";
import { systemClock } from "./system-clock.js";

export interface EmbeddedOptions {
  /** Directory for the data; made when absent. Default: a temporary one, removed on stop. */
  readonly dataDir?: string;
  /** Port on 127.0.0.1; 0 (default) takes any that is free. */
  readonly port?: number;
  /** Password of the user `default`. Default: none. */
  readonly password?: string;
  /** fsync each insert before it is acknowledged. Default false: what was acknowledged survives the end of the process, not of the machine. */
  readonly durable?: boolean;
  /** 1 to 64, default 12. More wait, up to 1000; after that error 202. */
  readonly maxConcurrentQueries?: number;
  /** Ends the start. */
  readonly signal?: AbortSignal;
}

export interface EmbeddedClickHouse extends AsyncDisposable {
  /** `http://127.0.0.1:PORT`, for `createClient({ url })`. */
  readonly url: string;
  readonly pid: number;
  readonly dataDir: string;
  /** Ends the process; running queries are cut. Idempotent. */
  stop(): Promise<void>;
  /** The last 1000 queries, oldest first. ENGINE_EXITED once the process has ended. */
  recentQueries(): Promise<readonly RecentQuery[]>;
}

const stopGraceMs = 5000;

/** Starts a server of its own process on a data directory. The process ends with this one, however this one ends. */
export async function startEmbeddedClickHouse(o: EmbeddedOptions = {}): Promise<EmbeddedClickHouse> {
  o.signal?.throwIfAborted();
  const temporary = o.dataDir === undefined;
  const dataDir = o.dataDir === undefined ? await mkdtemp(join(tmpdir(), "holdfast-clickhouse-")) : resolve(o.dataDir);
  const maxConcurrentQueries = o.maxConcurrentQueries ?? 12;
  const child = spawnChild(maxConcurrentQueries);
  const server = new EmbeddedHandle(child, dataDir, temporary);
  try {
    await server.start(
      {
        type: "start",
        dataDir,
        temporary,
        port: o.port ?? 0,
        password: o.password ?? "",
        durable: o.durable ?? false,
        maxConcurrentQueries,
      },
      o.signal,
    );
    return server;
  } catch (error) {
    await server.stop();
    throw error;
  }
}

/** From the built package the child is plain JavaScript; from sources (tests of this workspace) it goes through tsx. */
function spawnChild(maxConcurrentQueries: number): ChildProcess {
  const own = fileURLToPath(import.meta.url);
  const fromSource = own.endsWith(".ts");
  const entry = join(dirname(own), fromSource ? "child.ts" : "child.js");
  const execArgv: string[] = [];
  if (fromSource) {
    const tsx = dirname(createRequire(import.meta.url).resolve("tsx/package.json"));
    execArgv.push("--import", pathToFileURL(join(tsx, "dist", "loader.mjs")).href);
  }
  return fork(entry, [], {
    execArgv,
    env: { ...process.env, UV_THREADPOOL_SIZE: String(maxConcurrentQueries + 6) },
    stdio: ["ignore", "ignore", "pipe", "ipc"],
  });
}

class EmbeddedHandle implements EmbeddedClickHouse {
  readonly dataDir: string;
  readonly pid: number;
  url = "";
  readonly #child: ChildProcess;
  readonly #temporary: boolean;
  readonly #exited: Promise<void>;
  readonly #asked = new Map<number, { resolve: (q: readonly RecentQuery[]) => void; reject: (e: Error) => void }>();
  #stderr = "";
  #hasExited = false;
  #stopping: Promise<void> | null = null;
  #nextId = 0;

  constructor(child: ChildProcess, dataDir: string, temporary: boolean) {
    this.#child = child;
    this.dataDir = dataDir;
    this.#temporary = temporary;
    this.pid = child.pid ?? -1;
    child.stderr?.setEncoding("utf8").on("data", (text: string) => (this.#stderr = (this.#stderr + text).slice(-4096)));
    this.#exited = new Promise((resolve) => {
      const end = (): void => {
        this.#hasExited = true;
        for (const { reject } of this.#asked.values()) reject(this.#exitError());
        this.#asked.clear();
        resolve();
      };
      child.once("exit", end);
      child.once("error", end);
    });
    child.on("message", (m: FromChild) => {
      if (m.type !== "recent") return;
      this.#asked.get(m.id)?.resolve(m.queries);
      this.#asked.delete(m.id);
    });
  }

  async start(message: ToChild, signal: AbortSignal | undefined): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const onAbort = (): void =>
        reject(new EmbeddedError("CANCELED", "the start was canceled by its signal", { cause: signal?.reason }));
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#child.on("message", (m: FromChild) => {
        if (m.type === "up") this.#send(message);
        if (m.type === "ready") {
          this.url = `http://127.0.0.1:${m.port}`;
          signal?.removeEventListener("abort", onAbort);
          resolve();
        }
        if (m.type === "failed") reject(new EmbeddedError(m.code, m.message.replace(`[${m.code}] `, "")));
      });
      void this.#exited.then(() =>
        reject(
          new EmbeddedError("ENGINE_FAILED", `the server's process ended before it was ready. ${this.#lastWords()}`),
        ),
      );
    });
  }

  #send(message: ToChild): void {
    // A channel that has closed makes the exit event, which tells the same.
    this.#child.send(message, () => undefined);
  }

  #lastWords(): string {
    const { exitCode, signalCode } = this.#child;
    return `Exit code ${String(exitCode)}, signal ${String(signalCode)}. ${this.#stderr.trim()}`.trim();
  }

  #exitError(): EmbeddedError {
    return new EmbeddedError("ENGINE_EXITED", `the server's process (pid ${this.pid}) has ended. ${this.#lastWords()}`);
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
