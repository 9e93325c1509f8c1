import { Readable, Transform, type TransformCallback } from "node:stream";
import type { Send } from "./send.js";

/** So much of an answer is awaited before it counts as answered: what breaks before that is read again. */
const prefetchBytes = 256 * 1024;

/**
 * The body of an upload, from a stream that can be read once. Nothing is taken from that before the request goes out, so
 * that an attempt which was never sent may be followed by another.
 */
export class GatedBody extends Readable {
  #open = false;
  #ended = false;

  constructor(
    readonly source: Readable,
    readonly onBroken: (error: Error) => void,
  ) {
    super();
    source.once("error", this.#failed).once("close", this.#closed);
    // Given up between two attempts: nothing more comes of it, no event either.
    if (source.destroyed) process.nextTick(this.#closed);
  }

  /** The request goes out: the source may flow. */
  open(): void {
    if (this.#open || this.destroyed) return;
    this.#open = true;
    this.source.on("data", this.#take).once("end", this.#over);
  }

  override _read(): void {
    if (this.#open) this.source.resume();
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.source.off("data", this.#take).off("end", this.#over).off("error", this.#failed).off("close", this.#closed);
    if (this.#open && !this.#ended) this.source.pause();
    callback(error);
  }

  readonly #take = (chunk: Buffer): void => {
    if (!this.push(chunk)) this.source.pause();
  };

  readonly #over = (): void => {
    this.#ended = true;
    this.push(null);
  };

  readonly #failed = (error: Error): void => {
    this.destroy();
    this.onBroken(error);
  };

  readonly #closed = (): void => {
    if (this.#ended || this.destroyed) return;
    this.#failed(this.source.errored ?? new Error("the stream that was to be uploaded was closed before its end"));
  };
}

/** The body of an answer on its way to its reader: it ends whole, or with an error. */
export class AnswerBody extends Transform {
  #count = 0;
  #settle: { resolve: () => void; reject: (error: Error) => void } | null = null;
  #state: "flowing" | "complete" | Error = "flowing";
  /** Gives an error the form that the reader is to see. */
  translate: (error: Error) => Error = (error) => error;

  constructor(
    readonly source: Readable,
    readonly send: Send,
  ) {
    super({ highWaterMark: prefetchBytes });
    // Whether or not it has a reader yet, an error of it is not an uncaught one.
    this.on("error", () => undefined);
    source.on("error", (error: Error) => this.fail(error));
    source.once("end", () => {
      if (send.complete()) this.end();
      else this.fail(new Error("the connection closed before the end of the body"));
    });
    source.pipe(this, { end: false });
  }

  /** Resolves when the body is complete, or the buffer full of it; rejects when it broke before. */
  filled(): Promise<void> {
    if (this.#state instanceof Error) return Promise.reject(this.#state);
    if (this.#state === "complete" || this.#count >= prefetchBytes) return Promise.resolve();
    return new Promise((resolve, reject) => (this.#settle = { resolve, reject }));
  }

  fail(error: Error): void {
    if (this.#state !== "flowing") return;
    this.#state = error;
    this.#settle?.reject(error);
    this.destroy(this.translate(error));
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, callback: TransformCallback): void {
    this.#count += chunk.length;
    callback(null, chunk);
    if (this.#count >= prefetchBytes) this.#settle?.resolve();
  }

  override _flush(callback: TransformCallback): void {
    this.#state = "complete";
    this.#settle?.resolve();
    callback();
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    if (this.#state === "flowing") {
      this.#state = error ?? new Error("the body was given up");
      this.#settle?.reject(this.#state);
    }
    if (this.#state !== "complete") {
      this.source.unpipe(this);
      this.source.destroy();
      // The vendor's own clean-up would destroy the agent that all requests share.
      this.send.stop();
    }
    callback(error);
  }
}
