import { createServer, request as httpRequest, type Server } from "node:http";
import type { AddressInfo } from "node:net";

/** A forwarder in front of a server that holds back the requests whose statement the test picks. */
export interface HoldingProxy {
  readonly url: string;
  stop(): Promise<void>;
}

/** `hold` gives a promise to wait for before the request goes on, or nothing. */
export async function holdingProxy(
  target: string,
  hold: (statement: string) => Promise<void> | undefined,
): Promise<HoldingProxy> {
  const server: Server = createServer((incoming, outgoing) => {
    void (async () => {
      const chunks: Buffer[] = [];
      for await (const chunk of incoming) chunks.push(chunk as Buffer);
      const body = Buffer.concat(chunks);
      await hold(body.toString() || (new URL(incoming.url ?? "/", target).searchParams.get("query") ?? ""));
      const forwarded = httpRequest(
        new URL(incoming.url ?? "/", target),
        { method: incoming.method, headers: incoming.headers },
        (answer) => {
          outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
          answer.pipe(outgoing);
        },
      );
      forwarded.on("error", () => outgoing.destroy());
      forwarded.end(body);
    })();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    stop: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
