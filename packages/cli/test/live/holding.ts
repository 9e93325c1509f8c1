import { createServer, request, type IncomingMessage, type ServerResponse } from "node:http";

/** A server before another that passes requests on, but for one, which it never answers. */
export async function holding(
  target: string,
  o: { nth: number; onHeld: () => void },
): Promise<{ url: string; close(): void }> {
  let requests = 0;
  const pass = (incoming: IncomingMessage, outgoing: ServerResponse): void => {
    requests += 1;
    if (requests === o.nth) {
      o.onHeld();
      return;
    }
    const { method, headers, url } = incoming;
    const forward = request(new URL(url ?? "/", target), { method, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(outgoing);
    });
    forward.on("error", () => outgoing.destroy());
    incoming.pipe(forward);
  };
  const server = createServer(pass).listen(0, "127.0.0.1");
  await new Promise((ready) => server.once("listening", ready));
  const { port } = server.address() as { port: number };
  return { url: `http://127.0.0.1:${port.toString()}`, close: () => server.close().closeAllConnections() };
}
