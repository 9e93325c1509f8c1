// A server that reads of each long body only so much, until it is told to read on.
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { onTestFinished } from "vitest";

/** Of a long body, before the server stops reading. */
const readBytes = 200_000;

export interface ReluctantServer {
  readonly url: string;
  /** Requests whose bodies are not read on. */
  readonly stuck: readonly IncomingMessage[];
  /** Long requests that came to their end, by method and address. */
  readonly whole: readonly string[];
}

export async function reluctantServer(): Promise<ReluctantServer> {
  const stuck: IncomingMessage[] = [];
  const whole: string[] = [];
  const server = createServer((request, response) => {
    let read = 0;
    request.on("error", () => undefined);
    request.on("end", () => {
      if (read > readBytes) whole.push(`${request.method} ${request.url}`);
      response.writeHead(200, { "content-type": "application/json" }).end("{}");
    });
    request.on("data", (chunk: Buffer) => {
      const before = read;
      read += chunk.length;
      if (before >= readBytes || read < readBytes) return;
      request.pause();
      stuck.push(request);
    });
  });
  server.on("connection", (socket: Socket) => void socket.on("error", () => undefined));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, stuck, whole };
}
