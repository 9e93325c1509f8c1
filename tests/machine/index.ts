export { patient } from "./patient.js";
export { until } from "./until.js";
import { Worker } from "node:worker_threads";

/** The engine whose `SELECT 1` is the round trip that {@link Lateness.pace} is taken from. */
interface Engine {
  readonly url: string;
  readonly username?: string;
  readonly password?: string;
}

interface Report {
  readonly ready?: true;
  readonly id?: number;
  readonly value?: number | null;
  readonly failed?: string | null;
}

/**
 * How late this machine is. A thread of its own sleeps for 20 ms and makes a request to a server of its own, over and over; what that takes
 * beyond its time on a quiet machine is lateness, and so is what the test's own thread waits for a processor (on Linux, where the kernel counts
 * it). A limit that a requirement states in milliseconds is checked with {@link Lateness.sinceMs} added to it (docs/adr/0008).
 *
 * Nothing that the code under test waits for makes either longer: not a lock, a timer, an answer, nor a place in the engine's queue. What it
 * computes does: the product, the engine and the probe share the processors, so that work which fills them all is counted as lateness.
 */
export class Lateness implements AsyncDisposable {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, { resolve(value: number): void; reject(error: Error): void }>();
  #requests = 0;
  /** Why there is no answer any more; null while the thread runs. */
  #ended: Error | null = null;

  private constructor(worker: Worker) {
    this.#worker = worker;
    worker.on("message", (report: Report) => this.#take(report));
    worker.on("error", (error: Error) => this.#end(error));
    worker.on("exit", () => this.#end(ended()));
  }

  /** Starts the probe; it has probed the machine 20 times when this resolves, and the engine as often where there is one. */
  static async start(engine?: Engine): Promise<Lateness> {
    const { username = "default", password = "" } = engine ?? {};
    const headers = engine === undefined ? {} : { "x-clickhouse-user": username, "x-clickhouse-key": password };
    const worker = new Worker(new URL("./probe.mjs", import.meta.url), {
      workerData: { url: engine?.url ?? null, headers },
    });
    try {
      await new Promise<void>((resolve, reject) => {
        worker.once("message", ({ failed }: Report) => (failed == null ? resolve() : reject(new Error(failed))));
        worker.once("error", reject);
        worker.once("exit", () => reject(ended()));
      });
    } catch (error) {
      await worker.terminate();
      throw error;
    }
    return new Lateness(worker);
  }

  /**
   * By how many milliseconds the probes of the machine since `fromMs` (`performance.now()`) were late together, and how long the test's thread
   * waited. The engine has no part in it.
   */
  sinceMs(fromMs: number): Promise<number> {
    const agoMs = performance.now() - fromMs;
    return this.#ask({ fromMs: Number(process.hrtime.bigint()) / 1e6 - agoMs });
  }

  /**
   * How many times slower than on a quiet machine the engine answers now, from 1: what its newest 20 probes took against as many on a quiet one.
   * Without an engine, those of the probe's own server. For the choice of a TTL that a test waits for, before it begins. Beside eight busy loops
   * on two cores it is about 5, beside twenty about 9.
   */
  pace(): Promise<number> {
    return this.#ask({});
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#worker.terminate();
  }

  #ask(question: { readonly fromMs?: number }): Promise<number> {
    if (this.#ended !== null) return Promise.reject(this.#ended);
    const id = (this.#requests += 1);
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#worker.postMessage({ id, ...question });
    });
  }

  #take({ id = 0, value, failed }: Report): void {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (typeof value === "number") waiting?.resolve(value);
    else waiting?.reject(new Error(failed ?? "the probe of the machine gave no number"));
  }

  #end(error: Error): void {
    this.#ended ??= error;
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }
}

const ended = (): Error => new Error("the probe of the machine has ended");
