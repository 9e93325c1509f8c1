// A server that reads of each long body only so much, until it is told to read on, and can answer before.
import { patient } from "@holdfast-private/tests-machine";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { onTestFinished } from "vitest";

/** Of a long body, before the server stops reading. */
const readBytes = 200_000;

export interface ReluctantServer {
  readonly url: string;
  readonly port: number;
  /** Requests whose bodies are not read on. */
  readonly stuck: readonly IncomingMessage[];
  /** Long requests that came to their end, by method and address. */
  readonly whole: readonly string[];
  /** Answers those requests though their bodies have not come. */
  answer(): void;
}

export async function reluctantServer(): Promise<ReluctantServer> {
  const stuck: IncomingMessage[] = [];
  const whole: string[] = [];
  let early = false;
  const server = createServer((request, response) => {
    let read = 0;
    request.on("error", () => undefined);
    request.on("end", () => {
      if (read >= readBytes) whole.push(`${request.method} ${request.url}`);
      if (!early || read < readBytes) response.writeHead(200, { "content-type": "application/json" }).end("{}");
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
  patient(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const answer = (): void => {
    early = true;
    const head = ["HTTP/1.1 200 OK", "content-type: application/json", 'etag: "e"', "content-length: 2"];
    // Past Node's own server, which ends the connection of a request that it answered before it was whole.
    for (const { socket } of stuck) socket.write(`${head.join("\r\n")}\r\n\r\n{}`);
  };
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, port, stuck, whole, answer };
}
