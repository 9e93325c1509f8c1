// The proxy's connection to the server: opened when there is something to say, opened anew for a late delivery.
import { connect, type Socket } from "node:net";
import { nowMs } from "../system-clock.js";
import type { CutBy } from "./faults.js";
import type { ConnectionEntry } from "./log.js";

/** Resets a connection as soon as what was written to it has left: a reset throws away what has not. @internal */
export function resetWhenSent(socket: Socket): void {
  // After an end of stream libuv refuses to reset; a closed socket answers with a reset what still comes.
  if (socket.writableEnded) socket.destroy();
  else if (socket.writable && (socket.connecting || socket.writableLength > 0))
    socket.write("", () => socket.resetAndDestroy());
  else socket.resetAndDestroy();
}

/** @internal */
export interface Target {
  readonly host: string;
  readonly port: number;
}

/** @internal */
export interface ServerSideEvents {
  data(bytes: Buffer): void;
  /** The server ended its half: in order (null), or with an error. */
  ended(error: Error | null): void;
}

/** @internal */
export class ServerSide {
  readonly #target: Target;
  readonly #entry: ConnectionEntry;
  readonly #events: ServerSideEvents;
  /** All that are not closed yet: one that was given up may still have something to send. */
  readonly #all = new Set<Socket>();
  #socket: Socket | null = null;

  constructor(target: Target, entry: ConnectionEntry, events: ServerSideEvents) {
    this.#target = target;
    this.#entry = entry;
    this.#events = events;
  }

  get socket(): Socket | null {
    return this.#socket;
  }

  /** Opens the connection unless there is one; `connected` is called once, when a new one stands. */
  open(connected: () => void = () => undefined): void {
    if (this.#socket !== null) return;
    const socket = connect({ ...this.#target, allowHalfOpen: true, noDelay: true });
    this.#socket = socket;
    this.#all.add(socket);
    socket.once("close", () => this.#all.delete(socket));
    socket.once("connect", connected);
    socket.on("data", (bytes) => {
      this.#entry.fromServer.push({ atMs: nowMs(), bytes: bytes.length });
      this.#entry.bytesFromServer += bytes.length;
      this.#events.data(bytes);
    });
    socket.on("end", () => this.#over(socket, null));
    socket.on("error", (error: NodeJS.ErrnoException) => {
      this.#entry.serverError = error.code ?? error.message;
      this.#over(socket, error);
    });
    socket.on("close", () => this.#over(socket, null));
  }

  write(bytes: Buffer): void {
    const socket = this.#socket;
    if (socket?.writable !== true) return;
    this.#entry.toServer.push({ atMs: nowMs(), bytes: bytes.length });
    this.#entry.bytesToServer += bytes.length;
    socket.write(bytes);
  }

  /** Ends our half; the server may still answer. */
  end(): void {
    this.#socket?.end();
  }

  /** Ends the connection; nothing more is told. */
  close(by: CutBy): void {
    const socket = this.#socket;
    this.#socket = null;
    if (socket === null || socket.destroyed) return;
    if (by === "rst") resetWhenSent(socket);
    else socket.end(() => socket.destroy());
  }

  /** Ends every connection at once, also one that is still being made, or whose bytes nobody takes. */
  destroy(): void {
    this.#socket = null;
    for (const socket of this.#all) {
      // A reset of one that is being made would wait for it to stand.
      if (socket.connecting || socket.writableEnded) socket.destroy();
      else socket.resetAndDestroy();
    }
  }

  #over(socket: Socket, error: Error | null): void {
    if (this.#socket !== socket) return;
    this.#socket = null;
    if (error === null) socket.end();
    else socket.destroy();
    this.#events.ended(error);
  }
}
