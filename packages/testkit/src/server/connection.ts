// One connection of a client to the fault server: reads requests, asks the scripts, sends the answers in order.
import type { Socket } from "node:net";
import { Framer } from "../http/framer.js";
import { requestFrame, type Head } from "../http/head.js";
import { after, nowMs } from "../system-clock.js";
import type { Reply } from "./reply.js";
import type { ReceivedRequest } from "./script.js";
import { send, wait } from "./sender.js";

/** A connection at the fault server. The object is live. Bytes are those inside TLS, where there is TLS. */
export interface ServerConnection {
  readonly number: number;
  readonly openedAt: number;
  /** When the client ended its half, or the connection broke. */
  readonly clientLeftAt: number | undefined;
  readonly closedAt: number | undefined;
  /** When the first byte of a request came, and how many bytes in all. */
  readonly firstByteAt: number | undefined;
  readonly bytesReceived: number;
  /** Requests that were received. */
  readonly requests: number;
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** @internal */
export const newServerConnection = (number: number, openedAt: number): Mutable<ServerConnection> => ({
  number,
  openedAt,
  clientLeftAt: undefined,
  closedAt: undefined,
  firstByteAt: undefined,
  bytesReceived: 0,
  requests: 0,
});

/** @internal */
export interface ServerConnectionEvents {
  /** After how many bytes of its body to answer a request with this head; undefined: after the last. */
  early(head: Omit<ReceivedRequest, "number">): number | undefined;
  received(request: Omit<ReceivedRequest, "number">): { request: ReceivedRequest; reply: Promise<Reply> };
  /** The server does what was asked, and answers; the client may be there still or not. */
  executed(reply: Reply, request: ReceivedRequest, clientPresent: boolean): void;
}

interface Reading {
  readonly firstByteAt: number;
  readonly body: Buffer[];
  head: Head;
  bytes: number;
  /** Answer when so many bytes of the body have come. */
  early: number;
  answered: boolean;
}

const noHead: Head = { line: ["", "", ""], headers: {} };

/** @internal */
export class ScriptedConnection {
  readonly entry: Mutable<ServerConnection>;
  readonly #socket: Socket;
  readonly #events: ServerConnectionEvents;
  readonly #gone = new AbortController();
  readonly #disposed = new AbortController();
  #reading: Reading | null = null;
  #resetOnReuse = false;
  #queue: Promise<boolean> = Promise.resolve(true);
  #idle: (() => void) | null = null;

  constructor(socket: Socket, entry: Mutable<ServerConnection>, events: ServerConnectionEvents) {
    this.#socket = socket;
    this.#events = events;
    this.entry = entry;
    const framer = this.#framer();
    socket.on("data", (bytes: Buffer) => {
      this.entry.firstByteAt ??= nowMs();
      this.entry.bytesReceived += bytes.length;
      if (this.#resetOnReuse) socket.resetAndDestroy();
      else framer.push(bytes);
    });
    socket.on("end", () => this.#left());
    socket.on("error", () => this.#left());
    socket.on("close", () => {
      this.entry.closedAt = nowMs();
      this.#left();
    });
  }

  destroy(): void {
    this.#disposed.abort();
    this.#idle?.();
    this.#socket.destroy();
    this.#gone.abort();
  }

  #left(): void {
    this.entry.clientLeftAt ??= nowMs();
    this.#idle?.();
    this.#gone.abort();
    if (this.#socket.writable) this.#socket.end();
  }

  #framer(): Framer {
    return new Framer({
      start: () => {
        this.#idle?.();
        this.#reading = { firstByteAt: nowMs(), body: [], head: noHead, bytes: 0, early: Infinity, answered: false };
      },
      received: () => undefined,
      head: (head) => {
        const reading = this.#reading;
        if (reading !== null) {
          reading.head = head;
          reading.early = this.#events.early(this.#request(reading, false)) ?? Infinity;
          this.#answerEarly(reading);
        }
        const expects = /100-continue/i.test(head.headers["expect"] ?? "");
        if (expects && reading?.answered === false) this.#socket.write("HTTP/1.1 100 Continue\r\n\r\n");
        return requestFrame(head);
      },
      raw: () => undefined,
      payload: (bytes) => {
        const reading = this.#reading;
        if (reading === null || reading.answered) return;
        reading.body.push(bytes);
        reading.bytes += bytes.length;
        this.#answerEarly(reading);
      },
      end: () => {
        const reading = this.#reading;
        this.#reading = null;
        if (reading?.answered === false) this.#answer(reading, true);
      },
    });
  }

  #answerEarly(reading: Reading): void {
    if (!reading.answered && reading.bytes >= reading.early) this.#answer(reading, false);
  }

  #answer(reading: Reading, complete: boolean): void {
    reading.answered = true;
    this.entry.requests++;
    const { request, reply } = this.#events.received(this.#request(reading, complete));
    this.#queue = this.#queue.then(async (usable) => usable && (await this.#send(request, await reply)));
  }

  #request(reading: Reading, complete: boolean): Omit<ReceivedRequest, "number"> {
    const { head } = reading;
    const body = Buffer.concat(reading.body);
    const [, target] = head.line;
    const url = new URL(URL.canParse(target, "http://server") ? target : "/", "http://server");
    return {
      connection: this.entry.number,
      numberOnConnection: this.entry.requests,
      firstByteAt: reading.firstByteAt,
      lastByteAt: nowMs(),
      method: head.line[0],
      url,
      target,
      headers: head.headers,
      complete,
      body,
      statement: (url.searchParams.get("query") ?? body.subarray(0, 65_536).toString()).trimStart(),
    };
  }

  async #send(request: ReceivedRequest, reply: Reply): Promise<boolean> {
    if (!(await this.#work(reply.workMs ?? 0))) return false;
    this.#events.executed(reply, request, this.entry.clientLeftAt === undefined);
    const usable = await send(this.#socket, reply, request.method, this.#gone.signal);
    const { idle, resetOnReuse = false } = reply.delivery ?? {};
    this.#resetOnReuse = resetOnReuse;
    if (usable && idle !== undefined) {
      this.#idle = after(idle.afterMs, () => {
        if (idle.by === "rst") this.#socket.resetAndDestroy();
        else this.#socket.end();
      });
    }
    return usable;
  }

  /** False when the server was disposed of meanwhile. */
  async #work(ms: number | "until-client-left"): Promise<boolean> {
    if (ms !== "until-client-left") return await wait(ms, this.#disposed.signal);
    await wait(Infinity, this.#gone.signal);
    return !this.#disposed.signal.aborted;
  }
}
