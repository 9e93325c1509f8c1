// What a client sends: counted, then split into requests. In raw mode, and with TLS, all of it is one request.
import { Framer } from "../http/framer.js";
import { requestFrame } from "../http/head.js";
import { nowMs } from "../system-clock.js";
import type { Exchange } from "./exchange.js";

/** @internal */
export interface RequestReaderEvents {
  /** A request begins, or in raw mode may begin. */
  begin(): Exchange;
  /** Its first byte is here. */
  begun(exchange: Exchange): void;
  /** Whether the proxy itself answers a request that expects to be told to go on, and then does so. */
  answersContinue: boolean;
  continue(): void;
}

/** @internal */
export class RequestReader {
  readonly #events: RequestReaderEvents;
  readonly #framer: Framer;
  #raw: Exchange | null = null;
  #current: Exchange | null = null;

  constructor(events: RequestReaderEvents) {
    this.#events = events;
    this.#framer = this.#requests();
  }

  /** The one request of a connection that is not looked into. */
  get raw(): Exchange | null {
    return this.#raw;
  }

  /** From here nothing is looked into. */
  beRaw(): void {
    this.#raw = this.#events.begin();
    this.#raw.decide();
  }

  push(bytes: Buffer, atMs: number): void {
    if (this.#raw === null) {
      this.#framer.push(bytes);
      return;
    }
    const { entry } = this.#raw;
    if (entry.bytes === 0) this.#start(this.#raw, atMs);
    entry.lastByteAt = atMs;
    entry.bytes += bytes.length;
    this.#raw.request.push(bytes);
  }

  /** Nothing more comes. A torn request ends here; one that is not looked into is complete unless it was reset. */
  close(reset: boolean): void {
    const torn = this.#framer.close();
    this.#current?.request.push(torn);
    (this.#current ?? this.#raw)?.finish(this.#current === null && !reset);
    this.#current = null;
  }

  #start(exchange: Exchange, atMs: number): void {
    exchange.entry.firstByteAt = atMs;
    this.#events.begun(exchange);
  }

  #requests(): Framer {
    return new Framer({
      start: () => {
        this.#current = this.#events.begin();
        this.#start(this.#current, nowMs());
      },
      received: (bytes) => {
        if (this.#current === null) return;
        this.#current.entry.bytes += bytes;
        this.#current.entry.lastByteAt = nowMs();
      },
      head: (head, raw) => {
        const expects = this.#events.answersContinue && /100-continue/i.test(head.headers["expect"] ?? "");
        this.#current?.head(head, raw, expects);
        if (expects) this.#events.continue();
        return requestFrame(head);
      },
      raw: (bytes) => this.#current?.request.push(bytes),
      payload: (bytes) => this.#current?.payload(bytes),
      end: () => {
        this.#current?.finish(true);
        this.#current = null;
      },
    });
  }
}
