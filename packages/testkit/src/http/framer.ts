// Finds the borders of HTTP/1.1 messages in a stream of bytes without changing a byte.
import { parseHead, type BodyFrame, type Head } from "./head.js";

/** What a framer tells while it reads; of one message in this order: start, raw and head, raw and payload, end. */
export interface FramerEvents {
  /** The first byte of a message is here. */
  start(): void;
  /** So many bytes of the message have come (told at once, also while the head is not complete). */
  received(bytes: number): void;
  /** The head is complete; `raw` is its bytes. The answer is how the body is framed; null: another head follows. */
  head(head: Head, raw: Buffer): BodyFrame | null;
  /** Bytes of the body as they came, chunk sizes and trailers included. */
  raw(bytes: Buffer): void;
  /** Bytes of the body as the application sees them. */
  payload(bytes: Buffer): void;
  /** The last byte of the message was told. */
  end(): void;
}

type State = "idle" | "head" | "length" | "chunk-size" | "chunk-data" | "chunk-end" | "trailers" | "close";

const crlf = Buffer.from("\r\n");

/** Splits a stream of bytes into HTTP/1.1 messages. Push what comes; events are told synchronously, in order. */
export class Framer {
  readonly #events: FramerEvents;
  #state: State = "idle";
  /** The head so far, or the line of a chunked body so far. */
  #text: Buffer = Buffer.alloc(0);
  #left = 0;

  constructor(events: FramerEvents) {
    this.#events = events;
  }

  /** Reads the next bytes of the stream. */
  push(bytes: Buffer): void {
    let rest = bytes;
    while (rest.length > 0) rest = this.#step(rest);
  }

  /** The stream ended. The answer is what was read of a head that never became complete. */
  close(): Buffer {
    const torn = this.#state === "head" ? this.#text : Buffer.alloc(0);
    if (this.#state === "close") this.#finish();
    this.#state = "idle";
    this.#text = Buffer.alloc(0);
    return torn;
  }

  #step(bytes: Buffer): Buffer {
    switch (this.#state) {
      case "idle":
        return this.#begin(bytes);
      case "head":
        return this.#head(bytes);
      case "length":
      case "chunk-data":
        return this.#data(bytes);
      case "chunk-size":
      case "chunk-end":
      case "trailers":
        return this.#line(bytes);
      case "close":
        this.#tell(bytes);
        this.#events.payload(bytes);
        return bytes.subarray(bytes.length);
    }
  }

  /** Empty lines between messages belong to none (RFC 9112, 2.2). */
  #begin(bytes: Buffer): Buffer {
    let at = 0;
    while (bytes[at] === 13 || bytes[at] === 10) at++;
    if (at < bytes.length) {
      this.#state = "head";
      this.#events.start();
    }
    return bytes.subarray(at);
  }

  #head(bytes: Buffer): Buffer {
    const before = this.#text.length;
    const all = before === 0 ? bytes : Buffer.concat([this.#text, bytes]);
    const end = all.indexOf("\r\n\r\n", Math.max(0, before - 3));
    if (end < 0) {
      this.#text = Buffer.from(all);
      this.#events.received(bytes.length);
      return bytes.subarray(bytes.length);
    }
    const raw = all.subarray(0, end + 4);
    this.#text = Buffer.alloc(0);
    this.#events.received(raw.length - before);
    const frame = this.#events.head(parseHead(raw), raw);
    if (frame !== null) this.#body(frame);
    return all.subarray(end + 4);
  }

  #body(frame: BodyFrame): void {
    if (frame.kind === "chunked") this.#state = "chunk-size";
    else if (frame.kind === "close") this.#state = "close";
    else if (frame.bytes === 0) this.#finish();
    else {
      this.#state = "length";
      this.#left = frame.bytes;
    }
  }

  #data(bytes: Buffer): Buffer {
    const part = bytes.subarray(0, this.#left);
    this.#left -= part.length;
    this.#tell(part);
    this.#events.payload(part);
    if (this.#left === 0) {
      if (this.#state === "chunk-data") this.#state = "chunk-end";
      else this.#finish();
    }
    return bytes.subarray(part.length);
  }

  #line(bytes: Buffer): Buffer {
    const before = this.#text.length;
    const all = before === 0 ? bytes : Buffer.concat([this.#text, bytes]);
    const end = all.indexOf(crlf);
    const part = end < 0 ? bytes : all.subarray(before, end + 2);
    this.#tell(part);
    if (end < 0) {
      this.#text = Buffer.from(all);
      return bytes.subarray(bytes.length);
    }
    this.#text = Buffer.alloc(0);
    this.#endOfLine(all.subarray(0, end).toString("latin1"));
    return all.subarray(end + 2);
  }

  #endOfLine(line: string): void {
    if (this.#state === "chunk-end") this.#state = "chunk-size";
    else if (this.#state === "trailers") {
      if (line === "") this.#finish();
    } else {
      this.#left = Number.parseInt(line, 16) || 0;
      this.#state = this.#left === 0 ? "trailers" : "chunk-data";
    }
  }

  #tell(bytes: Buffer): void {
    this.#events.received(bytes.length);
    this.#events.raw(bytes);
  }

  #finish(): void {
    this.#state = "idle";
    this.#events.end();
  }
}
