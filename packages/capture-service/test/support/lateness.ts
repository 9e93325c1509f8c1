import { createClient } from "@clickhouse/client";
import { setTimeout as sleep } from "node:timers/promises";

const everyMs = 50;
/** What a timer and a `SELECT 1` take on a machine that has nothing else to do, with room. */
const quietMs = 30;

/**
 * How late a busy machine is: over and over a short sleep and a `SELECT 1`, and what these took beyond their time on a quiet one. A bound
 * that a requirement names in milliseconds is judged with this added, as a test's own event loop is elsewhere: what a service
 * does wrong stays visible, since no probe is late by it.
 */
export class Lateness implements AsyncDisposable {
  readonly #samples: { readonly atMs: number; readonly lateMs: number }[] = [];
  readonly #client;
  readonly #work: Promise<void>;
  #on = true;
  #begunMs = performance.now();

  constructor(engine: { readonly url: string; readonly username?: string; readonly password?: string }) {
    this.#client = createClient(engine);
    this.#work = this.#run();
  }

  async #run(): Promise<void> {
    while (this.#on) {
      this.#begunMs = performance.now();
      await sleep(everyMs);
      await (await this.#client.query({ query: "SELECT 1", format: "JSONEachRow" })).json();
      this.#samples.push({ atMs: performance.now(), lateMs: this.#underWayMs() });
    }
    await this.#client.close();
  }

  #underWayMs(): number {
    return Math.max(0, performance.now() - this.#begunMs - everyMs - quietMs);
  }

  /** By how many milliseconds all probes since `fromMs` (`performance.now()`) were late together, with the one under way. */
  sinceMs(fromMs: number): number {
    const ended = this.#samples.filter(({ atMs }) => atMs >= fromMs);
    return ended.reduce((sum, { lateMs }) => sum + lateMs, 0) + this.#underWayMs();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#on = false;
    await this.#work;
  }
}
