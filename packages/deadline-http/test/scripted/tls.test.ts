// Goal: a catalog over TLS is verified, and what the handshake refuses was not sent. Method: an https server on loopback
// with a private authority; what it decrypted is its own count of requests.
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { within } from "@holdfast/deadline-http";
import { authority, otherAuthority, serverCertificate, serverKey } from "../support/certificates.js";
import { boundClient, failure, read, write } from "../support/clickhouse.js";

async function secureServer(): Promise<{ url: string; requests: () => number; connections: () => number }> {
  let [requests, connections] = [0, 0];
  const server = createServer({ cert: serverCertificate, key: serverKey }, (request, response) => {
    requests++;
    request.resume().on("end", () => response.end('{"a":"1"}\n'));
  });
  server.on("connection", () => connections++);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { url: `https://localhost:${port}`, requests: () => requests, connections: () => connections };
}

it("DL-31 a private authority is accepted", async () => {
  const server = await secureServer();
  const client = boundClient(server.url, {}, { tls: { ca_cert: Buffer.from(authority) } });
  expect(await within(600_000, () => read(client))).toEqual([{ a: "1" }]);
  // On the same connection, which is secured already.
  expect(await within(600_000, () => read(client))).toEqual([{ a: "1" }]);
  expect([server.requests(), server.connections()]).toEqual([2, 1]);
});

it("DL-31 DL-12 another authority is refused with a TLS code, not sent, not tried again", async () => {
  const server = await secureServer();
  for (const ca of [otherAuthority, undefined]) {
    const before = server.connections();
    const client = boundClient(server.url, {}, ca === undefined ? {} : { tls: { ca_cert: Buffer.from(ca) } });
    const failed = await failure(() => within(600_000, () => write(client)));
    expect(failed).toMatchObject({ code: "REQUEST_FAILED", outcome: "not-sent", timedOut: false });
    expect(Reflect.get(Reflect.get(failed, "cause") as object, "code")).toMatch(/UNABLE_TO|SELF_SIGNED/);
    expect(server.connections() - before).toBe(1);
  }
  expect(server.requests()).toBe(0);
});
