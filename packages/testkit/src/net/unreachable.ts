// Places that cannot be reached, each in its own way.
import { Agent } from "node:http";
import { createServer, type AddressInfo, type LookupFunction } from "node:net";

/** A port of 127.0.0.1 on which nothing listens: connecting is refused. Nobody keeps it so; use it soon. */
export async function closedPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
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
