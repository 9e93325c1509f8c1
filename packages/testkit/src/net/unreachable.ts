// Places that cannot be reached, each in its own way.
import { randomInt } from "node:crypto";
import { Agent } from "node:http";
import { createServer, type LookupFunction } from "node:net";

/** Below the ports that systems hand out to whoever listens on any (Linux: from 32768, others: from 49152). */
const neverHandedOut = [20_000, 30_000] as const;

/**
 * A port of 127.0.0.1 on which nothing listens: connecting is refused. It stays closed unless another process asks for this exact port: a
 * server that listens on port 0 never gets it.
 */
export async function closedPort(): Promise<number> {
  for (;;) {
    const port = randomInt(...neverHandedOut);
    const server = createServer();
    const isFree = await new Promise<boolean>((resolve) => {
      server.once("error", () => resolve(false));
      server.listen(port, "127.0.0.1", () => resolve(true));
    });
    if (!isFree) continue;
    await new Promise((resolve) => server.close(resolve));
    return port;
  }
}

/** A `lookup` for agents and `connect` by which no name has an address (`ENOTFOUND`). */
export const lookupFails: LookupFunction = (hostname, _options, callback) => {
  const error = Object.assign(new Error(`getaddrinfo ENOTFOUND ${hostname}`), {
    code: "ENOTFOUND",
    syscall: "getaddrinfo",
    hostname,
  });
  process.nextTick(() => callback(error, "", 4));
};

/** A `lookup` that never answers. */
export const lookupStalls: LookupFunction = () => undefined;

/** An agent with one kept-alive socket: a second request waits in its queue for as long as the first one lasts. */
export const oneSocketAgent = (): Agent => new Agent({ keepAlive: true, maxSockets: 1, maxTotalSockets: 1 });
