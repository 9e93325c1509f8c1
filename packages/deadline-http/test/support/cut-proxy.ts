// A TCP proxy that ends each connection at a chosen byte and keeps a log of what came: the judge of "not-sent".
import { connect, createServer, type AddressInfo, type Socket } from "node:net";

export interface Cut {
  /** Counted in what the client sends, or in what is given to it. */
  readonly side: "request" | "answer";
  /** After so many bytes; 0: as soon as the connection is accepted. */
  readonly atByte: number;
  /** A reset, the end of the stream, or nothing any more. */
  readonly how: "reset" | "end" | "stall";
}

export interface ConnectionLog {
  /** All that the client sent, as far as it was read here. */
  readonly bytes: () => Buffer;
  readonly closed: () => boolean;
  /** It has come to its cut, and that is a stall: nothing more will happen here. */
  readonly stalled: () => boolean;
}

export interface CutProxy extends AsyncDisposable {
  readonly port: number;
  /** One for each connection since this was last emptied. */
  readonly connections: ConnectionLog[];
}

/** `next` tells where the connection that comes in is cut; null: nowhere. */
export async function cutProxy(target: number, next: () => Cut | null): Promise<CutProxy> {
  const sockets = new Set<Socket>();
  const connections: ConnectionLog[] = [];
  const server = createServer({ noDelay: true }, (client) => {
    const cut = next();
    const chunks: Buffer[] = [];
    let stalled = false;
    connections.push({
      bytes: () => Buffer.concat(chunks),
      closed: () => client.destroyed,
      stalled: () => stalled,
    });
    const upstream = connect({ port: target, host: "127.0.0.1", noDelay: true });
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("error", () => undefined).once("close", () => sockets.delete(socket));
    }
    client.once("close", () => upstream.destroy());
    upstream.once("close", () => {
      if (cut?.how !== "stall") client.destroy();
    });
    const apply = (): void => {
      if (!cut) return;
      upstream.destroy();
      if (cut.how === "reset") client.resetAndDestroy();
      else if (cut.how === "end") client.destroy();
      // What still comes is logged, and goes nowhere.
      else stalled = true;
    };
    if (cut?.atByte === 0) apply();
    client.on("data", (chunk) => chunks.push(chunk));
    relay(client, upstream, cut?.side === "request" ? cut.atByte : Infinity, apply);
    relay(upstream, client, cut?.side === "answer" ? cut.atByte : Infinity, apply);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as AddressInfo).port,
    connections,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Passes on the first `bytes` bytes, then applies the cut, when they are written. */
function relay(from: Socket, to: Socket, bytes: number, apply: () => void): void {
  let left = bytes;
  from.on("data", (chunk: Buffer) => {
    if (left <= 0) return;
    const part = chunk.subarray(0, left);
    left -= part.length;
    to.write(part, () => {
      if (left <= 0) apply();
    });
  });
}

const recordHeaderBytes = 5;
const applicationData = 23;

/**
 * How many bytes of requests are in what a client sent. Over TLS (1.2, whose handshake has record types of its own) those
 * are the application-data records, the first byte of the first included.
 */
export function requestBytes(sent: Buffer, secure: boolean): number {
  if (!secure) return sent.length;
  let at = 0;
  while (at < sent.length) {
    if (sent[at] === applicationData) return sent.length - at;
    if (at + recordHeaderBytes > sent.length) return 0;
    at += recordHeaderBytes + sent.readUInt16BE(at + 3);
  }
  return 0;
}
