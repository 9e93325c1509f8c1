import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";

/** A TCP forwarder that can stop reading from its clients, so that what they are writing stays half written. It counts what went through. */
export interface SlowReader extends AsyncDisposable {
  readonly url: string;
  /** How many POST requests clients have begun. */
  requests(): number;
  /** How many bytes clients have sent. */
  bytes(): number;
  /** How many a client has sent since, and with, the newest chunk that has this text. */
  bytesSince(marker: string): number;
  /** The connection by which the newest such chunk came is over. */
  ended(marker: string): boolean;
  /**
   * Stops reading, once, from the client whose bytes contain `marker`, when `bytes` of them have been passed on since, and calls `caught`. Not
   * from a connection at which it stopped before: what the kernel still holds of that one is old.
   */
  stopAfter(marker: string, bytes: number, caught: () => void): void;
  goOn(): void;
  /** Resolves when what has arrived at this machine has been read: nothing more came in many turns of the event loop. */
  quiet(): Promise<void>;
}

interface Trap {
  readonly marker: string;
  readonly bytes: number;
  readonly caught: () => void;
}

const turnsOfQuiet = 50;

class Forwarder implements SlowReader {
  readonly #server: Server;
  readonly #clients: { readonly socket: Socket; readonly chunks: Buffer[]; bytes: number; over: boolean }[] = [];
  readonly #caught = new WeakSet<Socket>();
  readonly #sockets = new Set<Socket>();
  #trap: Trap | null = null;
  #stopped: Socket | null = null;

  constructor(target: { readonly host: string; readonly port: number }) {
    this.#server = createServer((socket) => this.#serve(socket, connect(target.port, target.host)));
  }

  async listen(): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return this;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  #serve(socket: Socket, onward: Socket): void {
    const client = { socket, chunks: [] as Buffer[], bytes: 0, over: false };
    this.#clients.push(client);
    for (const one of [socket, onward]) {
      this.#sockets.add(one);
      one.on("error", () => undefined);
      one.on("close", () => {
        client.over = true;
        this.#sockets.delete(one);
        socket.destroy();
        onward.destroy();
      });
    }
    socket.on("data", (chunk) => {
      client.chunks.push(chunk);
      client.bytes += chunk.length;
      onward.write(chunk);
      const trap = this.#trap;
      if (trap === null || this.#caught.has(socket) || bytesSince(client.chunks, trap.marker) < trap.bytes) return;
      this.#trap = null;
      this.#caught.add(socket);
      this.#stopped = socket;
      socket.pause();
      trap.caught();
    });
    onward.on("data", (chunk) => socket.write(chunk));
  }

  requests(): number {
    const texts = this.#clients.map(({ chunks }) => Buffer.concat(chunks).toString("latin1"));
    return texts.reduce((sum, text) => sum + text.split("POST /").length - 1, 0);
  }

  bytes(): number {
    return this.#clients.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  #with(marker: string) {
    return this.#clients.findLast(({ chunks }) => bytesSince(chunks, marker) > 0);
  }

  bytesSince(marker: string): number {
    return bytesSince(this.#with(marker)?.chunks ?? [], marker);
  }

  ended(marker: string): boolean {
    return this.#with(marker)?.over === true;
  }

  stopAfter(marker: string, bytes: number, caught: () => void): void {
    this.#trap = { marker, bytes, caught };
  }

  goOn(): void {
    this.#stopped?.resume();
    this.#stopped = null;
  }

  async quiet(): Promise<void> {
    let seen = this.bytes();
    for (let turns = 0; turns < turnsOfQuiet; turns++) {
      await new Promise((resolve) => setImmediate(resolve));
      if (this.bytes() !== seen) turns = 0;
      seen = this.bytes();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

function bytesSince(chunks: readonly Buffer[], marker: string): number {
  const at = chunks.findLastIndex((chunk) => chunk.includes(marker));
  return at < 0 ? 0 : chunks.slice(at).reduce((sum, { length }) => sum + length, 0);
}

export function slowReader(target: { readonly host: string; readonly port: number }): Promise<SlowReader> {
  return new Forwarder(target).listen();
}
