// Goal: in raw mode and through TLS the log counts bytes and records truly. Method: a raw echo server, and an https fault
// server behind the proxy with clients of TLS 1.2 and 1.3, good ones and one that refuses the certificate.
import { connect, createServer, type AddressInfo } from "node:net";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { describe, expect, it, onTestFinished } from "vitest";
import type { FaultProxy, FaultServer } from "@holdfast/testkit";
import { serverCertificate, serverKey } from "../support/certificates.js";
import { proxyBefore, server } from "../support/pair.js";

async function echo(): Promise<number> {
  const made = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on("error", () => undefined);
    socket.pipe(socket);
  });
  await new Promise<void>((resolve) => made.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void made.close());
  return (made.address() as AddressInfo).port;
}

async function conversation(port: number, text: string): Promise<string> {
  const socket = connect(port, "127.0.0.1").end(text);
  let got = "";
  for await (const bytes of socket) got += String(bytes);
  return got;
}

describe("raw mode", () => {
  it("DL-32 raw: bytes pass as they are, the whole connection is one request", async () => {
    const proxy = await proxyBefore(await echo(), { mode: "raw" });
    expect(await conversation(proxy.port, "GET / HTTP/1.1\r\n\r\nnot http")).toBe("GET / HTTP/1.1\r\n\r\nnot http");
    expect(proxy.requests).toMatchObject([{ bytes: 26, complete: true, delivered: "whole", answerBytes: 26 }]);
    expect(proxy.connections[0]).toMatchObject({ bytesFromClient: 26, bytesToClient: 26, tls: undefined });
  });

  it("DL-32 raw: cut after N bytes, and a stall half-way", async () => {
    const proxy = await proxyBefore(await echo(), {
      mode: "raw",
      rules: [
        { times: 1, fault: { kind: "cut-request", afterBytes: 5, by: "fin" } },
        { fault: { kind: "stall", afterBytes: 3 } },
      ],
    });
    await conversation(proxy.port, "0123456789");
    expect(proxy.requests[0]).toMatchObject({ bytes: 10, deliveredBytes: 5, delivered: "part" });
    const socket = connect(proxy.port, "127.0.0.1");
    socket.write("0123456789");
    await new Promise((resolve) => socket.once("data", resolve));
    expect(proxy.requests[1]).toMatchObject({ bytes: 10, deliveredBytes: 3 });
    proxy.release();
    await proxy.until(() => proxy.requests[1]?.answerPassed === 10);
    socket.destroy();
  });

  it("DL-32 raw: a connection without a byte is no request", async () => {
    const proxy = await proxyBefore(await echo(), { mode: "raw" });
    const socket = connect(proxy.port, "127.0.0.1");
    await proxy.until(() => proxy.connections.length === 1);
    socket.end();
    await proxy.until(() => proxy.connections[0]?.closedAt !== undefined);
    expect(proxy.requests).toEqual([]);
  });
});

describe("through TLS", () => {
  const both = async (): Promise<{ proxy: FaultProxy; behind: FaultServer }> => {
    const behind = await server({ tls: { key: serverKey, cert: serverCertificate } });
    return { behind, proxy: await proxyBefore(behind.port) };
  };
  const handshake = (port: number, o: object): Promise<TLSSocket> =>
    new Promise((resolve, reject) => {
      const socket = connectTls({ port, host: "127.0.0.1", ...o });
      socket.once("secureConnect", () => resolve(socket));
      socket.once("error", reject);
    });

  it.each(["TLSv1.2", "TLSv1.3"] as const)(
    "DL-32 %s: a handshake alone has no payload, a request has some, the end of the connection none",
    async (version) => {
      const { proxy, behind } = await both();
      const socket = await handshake(proxy.port, {
        rejectUnauthorized: false,
        maxVersion: version,
        minVersion: version,
      });
      await proxy.settled();
      const tls = proxy.connections[0]!.tls!;
      expect(tls.client).toMatchObject({ isTls: true, payloadRecords: 0, payloadFirstAt: undefined });
      expect(tls.client.handshakeRecords).toBeGreaterThan(0);
      const before = proxy.connections[0]!.fromClient.at(-1)!.atMs;
      socket.write("GET /x HTTP/1.1\r\n\r\n");
      await behind.until(() => behind.received.length === 1);
      expect(tls.client.payloadRecords).toBe(1);
      expect(tls.client.payloadFirstAt).toBeGreaterThan(before);
      await proxy.until(() => tls.server.payloadRecords > 0);
      socket.end();
      await proxy.until(() => proxy.connections[0]!.clientLeftAt !== undefined);
      expect(tls.client.payloadRecords).toBe(1);
      socket.destroy();
    },
  );

  it.each(["TLSv1.2", "TLSv1.3"] as const)(
    "DL-32 %s: a client that refuses the certificate has sent no payload",
    async (version) => {
      const { proxy, behind } = await both();
      await expect(handshake(proxy.port, { maxVersion: version, minVersion: version })).rejects.toThrow();
      await proxy.until(() => proxy.connections[0]?.clientLeftAt !== undefined);
      expect(proxy.connections[0]!.tls!.client.payloadRecords).toBe(0);
      expect(proxy.connections[0]!.bytesFromClient).toBeGreaterThan(0);
      expect(behind.received).toEqual([]);
    },
  );

  it("DL-32 in raw mode faults apply to TLS as to any bytes: cut within the handshake", async () => {
    const { proxy } = await both();
    proxy.use({ fault: { kind: "cut-request", afterBytes: 100, by: "rst" } });
    await expect(handshake(proxy.port, { rejectUnauthorized: false })).rejects.toThrow();
    expect(proxy.requests[0]).toMatchObject({ deliveredBytes: 100, delivered: "part" });
    expect(proxy.connections[0]!.tls!.client.payloadRecords).toBe(0);
  });
});
