import { Readable } from "node:stream";
import type { BodyCheck } from "./body-check.js";

/** So much of an answer is awaited before the call counts as answered, where the server holds it back until it is whole anyway. */
const prefetchBytes = 256 * 1024;

/**
 * A response body that is checked on its way. Whatever ends it early ends it with an error, it never merely stops; and
 * an error that nobody reads does not become an uncaught one.
 */
export class CheckedBody extends Readable {
  readonly #source: Readable;
  #settle: { resolve: () => void; reject: (error: Error) => void } | null = null;
  #state: "flowing" | "complete" | Error = "flowing";
  /** Gives an error the form that the reader is to see; set once the call is over and only the body is left. */
  translate: (error: Error) => Error = (error) => error;

  constructor(source: Readable, check: BodyCheck) {
    super({ highWaterMark: prefetchBytes });
    this.#source = source;
    this.on("error", () => undefined);
    source.on("data", (chunk: Buffer) => this.#step(() => check.push(chunk)));
    source.on("end", () => {
      this.#step(() => check.end());
      if (this.destroyed) return;
      this.#state = "complete";
      this.push(null);
      this.#settle?.resolve();
    });
    source.on("error", (error) => this.#fail(check.broken() ?? error));
    source.on("close", () => {
      if (this.#state !== "flowing") return;
      this.#fail(check.broken() ?? new Error("the connection closed before the end of the body"));
    });
  }

  /** Resolves when the body is complete or the buffer is full of it; rejects when it broke before. */
  filled(): Promise<void> {
    if (this.#state === "complete" || this.readableLength >= prefetchBytes) return Promise.resolve();
    if (this.#state !== "flowing") return Promise.reject(this.#state);
    return new Promise((resolve, reject) => (this.#settle = { resolve, reject }));
  }

  /** Reads to the end and forgets what it reads. */
  async drained(): Promise<void> {
    this.resume();
    if (this.#state === "flowing") await new Promise<void>((resolve, reject) => (this.#settle = { resolve, reject }));
    if (this.#state instanceof Error) throw this.#state;
  }

  #step(judge: () => Buffer[]): void {
    if (this.destroyed) return;
    try {
      let more = true;
      for (const good of judge()) more = this.push(good);
      if (more) return;
      this.#source.pause();
      if (!this.readableFlowing) this.#settle?.resolve();
    } catch (error) {
      this.#fail(error instanceof Error ? error : new Error(String(error)));
    }
  }

  #fail(error: Error): void {
    if (this.#state !== "flowing") return;
    this.#state = error;
    this.#settle?.reject(error);
    this.destroy(this.translate(error));
  }

  override _read(): void {
    this.#source.resume();
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    if (this.#state === "flowing") {
      this.#state = error ?? new Error("the body was given up");
      this.#settle?.reject(this.#state);
    }
    this.#source.destroy();
    callback(error);
  }
}
