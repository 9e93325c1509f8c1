// One connection of a client: what comes is logged first, then split into requests, then passed through their valves.
import type { Socket } from "node:net";
import { after, nowMs } from "../system-clock.js";
import { AnswerReader } from "./answer-reader.js";
import { Exchange } from "./exchange.js";
import { passing, type CutBy } from "./faults.js";
import { Lane } from "./lane.js";
import { newRequest, type ConnectionEntry, type RequestEntry } from "./log.js";
import { RequestReader } from "./request-reader.js";
import type { Rules } from "./rules.js";
import { resetWhenSent, ServerSide, type Target } from "./server-side.js";
import { TlsRecords } from "./tls-records.js";

/** @internal */
export interface ConnectionOptions {
  readonly target: Target;
  readonly mode: "http" | "raw";
  readonly rules: Rules;
  readonly bodyStartBytes: number;
  readonly answerContinue: boolean;
  /** Where requests of all connections are noted, in the order of their first bytes. */
  readonly requests: RequestEntry[];
}

const firstByteOfTls = 22;

/** @internal */
export class ProxiedConnection {
  readonly entry: ConnectionEntry;
  readonly #client: Socket;
  readonly #o: ConnectionOptions;
  readonly #server: ServerSide;
  readonly #requests = new Lane();
  readonly #answers = new Lane();
  readonly #live: Exchange[] = [];
  readonly #fromClient: RequestReader;
  readonly #fromServer: AnswerReader;
  readonly #timers = new Set<() => void>();
  #tls: { client: TlsRecords; server: TlsRecords } | null = null;
  #open = false;
  #ended = false;

  constructor(client: Socket, entry: ConnectionEntry, o: ConnectionOptions) {
    this.entry = entry;
    this.#client = client;
    this.#o = o;
    this.#server = new ServerSide(o.target, entry, {
      data: (bytes) => this.#serverSent(bytes),
      ended: (error) => this.#serverEnded(error),
    });
    this.#fromClient = new RequestReader({
      begin: () => this.#begin(),
      begun: ({ entry: request }) => {
        entry.requests.push(request);
        o.requests.push(request);
      },
      answersContinue: o.answerContinue,
      continue: () => {
        if (client.writable) client.write("HTTP/1.1 100 Continue\r\n\r\n");
      },
    });
    this.#fromServer = new AnswerReader({
      begins: (exchange) => this.#answers.add(exchange.answer),
      unasked: (bytes) => this.#write(bytes),
    });
    client.on("data", (bytes) => this.#clientSent(bytes));
    client.on("end", () => this.#clientLeft(false));
    client.on("error", () => this.#clientLeft(true));
    client.on("drain", () => this.#server.socket?.resume());
    client.on("close", () => {
      entry.closedAt = nowMs();
      this.#clientLeft(false);
    });
    if (o.mode === "raw") this.#fromClient.beRaw();
  }

  /** From here the connection is served. */
  open(): void {
    if (this.#open || this.#ended || this.entry.clientLeftAt !== undefined) return;
    this.#open = true;
    this.#server.open(() => this.#start());
  }

  /** Nothing counts as delivered before there is a connection to deliver it to. */
  #start(): void {
    this.#requests.start();
    this.#answers.start();
  }

  /** Ends stalls and holds of the requests that match; says how many. */
  release(matches: (exchange: Exchange) => boolean): number {
    const chosen = this.#live.filter(matches);
    return chosen.filter((e) => [e.request.release(), e.answer.release()].includes(true)).length;
  }

  /** Ends both connections. */
  cut(by: CutBy): void {
    if (this.#ended) return;
    this.#ended = true;
    this.entry.cutBy = by;
    this.#dropAll();
    this.#server.close(by);
    if (by === "rst") resetWhenSent(this.#client);
    else this.#client.end();
  }

  /** Ends everything, for the end of the proxy. */
  destroy(): void {
    this.#ended = true;
    this.#dropAll();
    this.#server.destroy();
    this.#client.destroy();
  }

  #dropAll(): void {
    for (const exchange of this.#live) {
      exchange.request.drop();
      exchange.answer.drop();
    }
    for (const cancel of this.#timers) cancel();
  }

  #begin(): Exchange {
    const { entry } = this;
    const record = newRequest(entry.number, entry.requests.length + 1, nowMs());
    const { rules } = this.#o;
    const exchange: Exchange = new Exchange(record, this.#o.bodyStartBytes, {
      decide: (request) => (this.#ended ? passing : rules.decide(request)),
      looksAtBody: () => !this.#ended && rules.looksAtBody(),
      request: {
        write: (bytes) => this.#toServer(exchange, bytes),
        cut: (by) => this.cut(by),
        drained: () => this.#delivered(exchange),
      },
      answer: {
        write: (bytes) => this.#toClient(exchange, bytes),
        cut: (by) => this.cut(by),
        drained: () => this.#answered(exchange),
      },
    });
    for (const cancel of this.#timers) cancel();
    if (this.#ended) exchange.request.drop();
    else {
      this.#live.push(exchange);
      this.#requests.add(exchange.request);
    }
    return exchange;
  }

  #clientSent(bytes: Buffer): void {
    const atMs = nowMs();
    const beginsTls = this.entry.bytesFromClient === 0 && bytes[0] === firstByteOfTls;
    if (beginsTls) {
      this.#tls = { client: new TlsRecords(), server: new TlsRecords() };
      this.entry.tls = this.#tls;
    }
    this.#tls?.client.push(bytes, atMs);
    this.entry.fromClient.push({ atMs, bytes: bytes.length });
    this.entry.bytesFromClient += bytes.length;
    if (beginsTls && this.#fromClient.raw === null) this.#fromClient.beRaw();
    this.#fromClient.push(bytes, atMs);
  }

  #toServer(exchange: Exchange, bytes: Buffer): void {
    const { entry } = exchange;
    if (entry.delivered === "nothing") {
      // Only a late delivery may open a connection anew: for others the server's end is the end.
      if (exchange.plan.late) this.#server.open();
      if (this.#server.socket !== null) this.#fromServer.expect(exchange);
    }
    if (this.#server.socket === null) return;
    entry.delivered = "part";
    entry.deliveredFirstAt ??= nowMs();
    entry.deliveredBytes += bytes.length;
    this.#server.write(bytes);
  }

  #delivered(exchange: Exchange): void {
    if (exchange.entry.complete && exchange.entry.delivered === "part") {
      exchange.entry.delivered = "whole";
      exchange.entry.deliveredAt = nowMs();
    }
    this.#requests.next();
    this.#settle();
  }

  #serverSent(bytes: Buffer): void {
    if (this.#tls?.server.push(bytes, nowMs()) === true) {
      this.#tls.client.version13 = true;
      this.#tls.server.version13 = true;
    }
    const { raw } = this.#fromClient;
    if (raw === null) this.#fromServer.push(bytes);
    else this.#fromServer.pushRaw(raw, bytes);
  }

  #toClient(exchange: Exchange, bytes: Buffer): void {
    const left = this.entry.clientLeftAt !== undefined && exchange.plan.late;
    if (left || !this.#client.writable) {
      exchange.entry.answerDiscarded = true;
      return;
    }
    exchange.entry.answerPassed += bytes.length;
    this.#write(bytes);
  }

  #write(bytes: Buffer): void {
    if (!this.#client.writable) return;
    this.entry.toClient.push({ atMs: nowMs(), bytes: bytes.length });
    this.entry.bytesToClient += bytes.length;
    if (!this.#client.write(bytes)) this.#server.socket?.pause();
  }

  #answered(exchange: Exchange): void {
    this.#answers.next();
    this.#forget(exchange);
    const { idle } = exchange.plan;
    if (idle !== null && exchange.entry.answerComplete) {
      const cancel = after(idle.afterMs, () => {
        this.#timers.delete(cancel);
        this.cut(idle.by);
      });
      this.#timers.add(cancel);
    }
    this.#settle();
  }

  /** The client is gone, or says that it will send no more: what was only delayed or stalled will never be sent. */
  #clientLeft(reset: boolean): void {
    if (reset) this.entry.clientReset = true;
    if (this.entry.clientLeftAt !== undefined) {
      this.#settle();
      return;
    }
    this.entry.clientLeftAt = nowMs();
    this.#server.socket?.resume();
    this.#fromClient.close(reset);
    for (const exchange of [...this.#live]) {
      if (exchange.answer.withheld && exchange.entry.answerBytes > 0 && !exchange.plan.late) this.#discard(exchange);
      const unsent = exchange.entry.deliveredAt === undefined;
      const slow = exchange.request.withheld || exchange.plan.request.everyMs > 0;
      if (unsent && (!this.#open || (slow && !exchange.plan.late))) this.#requests.remove(exchange.request);
    }
    if (!this.#open) this.#client.end();
    this.#settle();
  }

  /** An answer that is kept back will find nobody. */
  #discard(exchange: Exchange): void {
    exchange.entry.answerDiscarded = true;
    this.#forget(exchange);
    this.#answers.remove(exchange.answer);
  }

  #forget(exchange: Exchange): void {
    const at = this.#live.indexOf(exchange);
    if (at >= 0) this.#live.splice(at, 1);
  }

  /** Passes the client's leaving on to the server, unless something is still to be delivered or answered late. */
  #settle(): void {
    if (this.#ended || this.entry.clientLeftAt === undefined || !this.#requests.empty) return;
    if (this.#fromServer.expectsLate) return;
    if (this.entry.clientReset) this.#server.close("rst");
    else this.#server.end();
    const discarded = this.#live.length === 0 && this.entry.requests.some((r) => r.answerDiscarded);
    if (discarded) this.#client.destroy();
  }

  #serverEnded(error: Error | null): void {
    const unanswered = this.#fromServer.close();
    (unanswered ?? this.#fromClient.raw)?.answer.finish();
    const kept = this.#live.some((e) => e.plan.late && e.entry.delivered === "nothing");
    if (kept && unanswered === undefined) {
      // The late delivery will open a connection of its own.
      this.#start();
      return;
    }
    this.#answers.afterAll(() => {
      if (this.#ended) return;
      this.#ended = true;
      if (error === null) this.#client.end();
      else resetWhenSent(this.#client);
    });
  }
}
