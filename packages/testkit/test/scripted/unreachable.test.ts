// Goal: each unreachable place fails in its own way. Method: plain sockets and a plain node:http client.
import { connect } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { blackholePort, closedPort, lookupFails, lookupStalls, oneSocketAgent } from "@holdfast/testkit";
import { begin, call, pending } from "../support/client.js";
import { pair } from "../support/pair.js";

describe("unreachable places", () => {
  it("DL-32 a closed port refuses", async () => {
    expect((await call(`http://127.0.0.1:${await closedPort()}`)).error).toBe("ECONNREFUSED");
  });

  it("DL-32 a lookup that fails, and one that never answers", async () => {
    expect((await call("http://nowhere.invalid", { lookup: lookupFails })).error).toBe("ENOTFOUND");
    const stalled = begin("http://nowhere.invalid", { lookup: lookupStalls });
    await new Promise((resolve) => setImmediate(resolve));
    expect(await pending(stalled.done)).toBe(true);
    stalled.leave();
    expect((await stalled.done).error).toBe("ECONNRESET");
  });

  it.runIf(process.platform === "linux")(
    "DL-32 a black hole never completes a connection, while another port of the machine does",
    async () => {
      const hole = await blackholePort();
      const { server: there } = await pair();
      const sockets = Array.from({ length: 5 }, () => connect(hole.port, hole.host).on("error", () => undefined));
      onTestFinished(() => sockets.forEach((socket) => void socket.destroy()));
      // Ten connections that complete, one after the other: far more than a loopback connection takes.
      for (let i = 0; i < 10; i++) expect((await call(there.url)).status).toBe(200);
      expect(sockets.map((socket) => socket.connecting)).toEqual([true, true, true, true, true]);
      await hole[Symbol.asyncDispose]();
    },
  );

  it("DL-32 an agent of one socket: the second request is not sent before the first has ended", async () => {
    const { proxy } = await pair({ rules: [{ times: 1, fault: { kind: "stall" } }] });
    const agent = oneSocketAgent();
    onTestFinished(() => agent.destroy());
    const first = begin(proxy.url, { agent });
    const second = begin(proxy.url, { agent });
    await proxy.until(() => proxy.requests[0]?.complete === true);
    await proxy.settled();
    expect(proxy.connections).toHaveLength(1);
    expect(proxy.requests).toHaveLength(1);
    proxy.release();
    await Promise.all([first.done, second.done]);
    expect(proxy.requests.map((r) => r.number)).toEqual([1, 2]);
  });
});
