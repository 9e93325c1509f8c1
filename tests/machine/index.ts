export { until } from "./until.js";
import { Worker } from "node:worker_threads";

/** The engine whose `SELECT 1` is the probe's round trip. */
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
 * How late this machine is. A thread of its own sleeps for 20 ms and makes a round trip (`SELECT 1` on an engine, or a request to a server
 * of its own), over and over; what that takes beyond its time on a quiet machine is lateness, and so is what the test's own thread waits for a
 * processor (on Linux, where the kernel counts it). Nothing that the code under test does makes either longer, so a limit that a requirement states in milliseconds is checked with {@link Lateness.sinceMs} added to it
 * (docs/adr/0008): what the product does wrong stays visible, and what the machine does is not blamed on it.
 */
export class Lateness implements AsyncDisposable {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, { resolve(value: number): void; reject(error: Error): void }>();
  #requests = 0;

  private constructor(worker: Worker) {
    this.#worker = worker;
    worker.on("message", (report: Report) => this.#take(report));
    worker.on("error", (error: Error) => this.#fail(error));
  }

  /** Starts the probe; it has measured the machine for half a second or more when this resolves. */
  static async start(engine?: Engine): Promise<Lateness> {
    const { username = "default", password = "" } = engine ?? {};
    const headers = engine === undefined ? {} : { "x-clickhouse-user": username, "x-clickhouse-key": password };
    const worker = new Worker(new URL("./probe.mjs", import.meta.url), {
      workerData: { url: engine?.url ?? null, headers },
    });
    await new Promise<void>((resolve, reject) => {
      worker.once("message", ({ failed }: Report) => (failed == null ? resolve() : reject(new Error(failed))));
      worker.once("error", reject);
    });
    return new Lateness(worker);
  }

  /** By how many milliseconds the probes since `fromMs` (`performance.now()`) were late together, and how long the test's thread waited. */
  sinceMs(fromMs: number): Promise<number> {
    const agoMs = performance.now() - fromMs;
    return this.#ask({ fromMs: Number(process.hrtime.bigint()) / 1e6 - agoMs });
  }

  /**
   * How many times slower than a quiet machine this one is now, from 1: what the newest 20 probes took against as many on a quiet one.
   * For the choice of a TTL that a test waits for, before it begins. Beside eight busy loops on two cores it is about 5, beside twenty about 9.
   */
  pace(): Promise<number> {
    return this.#ask({});
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#worker.terminate();
  }

  #ask(question: { readonly fromMs?: number }): Promise<number> {
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

  #fail(error: Error): void {
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }
}
