// What the server sends: each answer is given to the request that it is for, in order.
import { Framer } from "../http/framer.js";
import { answerFrame } from "../http/head.js";
import { nowMs } from "../system-clock.js";
import type { Exchange } from "./exchange.js";

/** @internal */
export interface AnswerReaderEvents {
  /** The first byte of an answer is here. */
  begins(exchange: Exchange): void;
  /** Bytes that nobody asked for. */
  unasked(bytes: Buffer): void;
}

/** @internal */
export class AnswerReader {
  readonly #events: AnswerReaderEvents;
  readonly #framer: Framer;
  /** Requests of which something was delivered, their answers still to come. */
  readonly #awaiting: Exchange[] = [];

  constructor(events: AnswerReaderEvents) {
    this.#events = events;
    this.#framer = this.#answers();
  }

  /** The server has begun to receive this one. */
  expect(exchange: Exchange): void {
    this.#awaiting.push(exchange);
  }

  /** Whether one is awaited that its client does not wait for. */
  get expectsLate(): boolean {
    return this.#awaiting.some((exchange) => exchange.late && exchange.entry.complete);
  }

  push(bytes: Buffer): void {
    this.#framer.push(bytes);
  }

  /** Bytes of a connection that is not looked into. */
  pushRaw(exchange: Exchange, bytes: Buffer): void {
    if (exchange.entry.answerBytes === 0) this.#begins(exchange);
    this.#count(exchange, bytes.length);
    exchange.answer.push(bytes);
  }

  /** Nothing more comes. The answer is the first request that was still waiting for one. */
  close(): Exchange | undefined {
    this.#framer.close();
    return this.#awaiting.splice(0)[0];
  }

  #begins(exchange: Exchange): void {
    this.#events.begins(exchange);
    exchange.answerBegins();
  }

  #count(exchange: Exchange, bytes: number): void {
    const atMs = nowMs();
    exchange.entry.answerBytes += bytes;
    exchange.entry.answerFirstByteAt ??= atMs;
    exchange.entry.answerLastByteAt = atMs;
  }

  #answers(): Framer {
    const now = (): Exchange | undefined => this.#awaiting[0];
    const pass = (exchange: Exchange | undefined, bytes: Buffer): void => {
      if (exchange === undefined) this.#events.unasked(bytes);
      else exchange.answer.push(bytes);
    };
    return new Framer({
      start: () => {
        const exchange = now();
        if (exchange !== undefined) this.#begins(exchange);
      },
      received: (bytes) => {
        const exchange = now();
        if (exchange !== undefined) this.#count(exchange, bytes);
      },
      head: (head, raw) => {
        const exchange = now();
        if (exchange !== undefined) exchange.entry.status = Number(head.line[1]);
        pass(exchange, raw);
        return answerFrame(head, exchange?.method ?? "GET");
      },
      raw: (bytes) => pass(now(), bytes),
      payload: () => undefined,
      end: () => {
        const exchange = this.#awaiting.shift();
        if (exchange === undefined) return;
        exchange.entry.answerComplete = true;
        exchange.answer.finish();
      },
    });
  }
}
