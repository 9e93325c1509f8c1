import { connect, createServer, type Server, type Socket } from "node:net";
import type { AddressInfo } from "node:net";

/** A TCP forwarder that can stop reading from its clients, so that what they are writing stays half written. It logs what went through. */
export interface SlowReader {
  readonly url: string;
  /** All that clients have sent so far, as text. */
  sent(): string;
  /** How many bytes that is. */
  bytes(): number;
  /** Stops reading from the client whose bytes contain `marker`, once it has passed on `bytes` of them since then. */
  stopAfter(marker: string, bytes: number): Promise<void>;
  goOn(): void;
  stop(): Promise<void>;
}

export async function slowReader(target: string): Promise<SlowReader> {
  const { hostname, port } = new URL(target);
  const chunks: Buffer[] = [];
  let bytes = 0;
  const sockets = new Set<Socket>();
  let trap: { marker: string; bytes: number; caught: () => void } | null = null;
  let caught: Socket | null = null;
  const server: Server = createServer((client) => {
    const onward = connect(Number(port), hostname);
    let counted = -1;
    for (const socket of [client, onward]) {
      sockets.add(socket);
      socket.on("error", () => undefined);
      socket.on("close", () => (sockets.delete(socket), client.destroy(), onward.destroy()));
    }
    client.on("data", (chunk) => {
      chunks.push(chunk);
      bytes += chunk.length;
      onward.write(chunk);
      if (trap === null) return;
      if (counted < 0 && chunk.includes(trap.marker)) counted = 0;
      if (counted >= 0) counted += chunk.length;
      if (counted < trap.bytes) return;
      client.pause();
      caught = client;
      trap.caught();
      trap = null;
    });
    onward.on("data", (chunk) => client.write(chunk));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    sent: () => Buffer.concat(chunks).toString("latin1"),
    bytes: () => bytes,
    stopAfter: (marker, bytes) => new Promise<void>((resolve) => (trap = { marker, bytes, caught: resolve })),
    goOn: () => caught?.resume(),
    stop: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
