// Goal: the log can be believed. Method: 120 requests with faults and sizes drawn from a fixed sequence, each on a connection
// of its own, some of whose clients leave; what the log says is compared with what the server itself received.
import { describe, expect, it } from "vitest";
import type { ProxyFault } from "@holdfast/testkit";
import { begin } from "../support/client.js";
import { pair } from "../support/pair.js";

/** A small generator (mulberry32), so that each run draws the same. */
function sequence(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
}

describe("the log against the server's own", () => {
  it("DL-32 over 120 faulted requests: delivered whole exactly when the server received it whole, and never fewer bytes than it has", async () => {
    const draw = sequence(32);
    const faults: ((size: number) => ProxyFault)[] = [
      (size) => ({ kind: "cut-request", afterBytes: draw(size + 300), by: "fin" }),
      (size) => ({ kind: "cut-request", afterBytes: draw(size + 300), by: "rst" }),
      (size) => ({ kind: "stall", afterBytes: draw(size + 200) }),
      // Its client leaves before anything was delivered, however late the test is.
      () => ({ kind: "stall", afterBytes: 0 }),
      () => ({ kind: "delay", ms: draw(20) }),
      () => ({ kind: "hold", ms: draw(20) }),
      () => ({ kind: "cut-answer", afterBytes: draw(120), by: "rst" }),
      () => ({ kind: "delay-answer", ms: draw(20) }),
    ];
    const { proxy, server } = await pair();
    for (let i = 0; i < 120; i++) {
      const size = draw(3) === 0 ? draw(200_000) : draw(2000);
      const fault = faults[i % faults.length]!(size);
      const take = proxy.use({ fault });
      const leaves = draw(3) === 0 || fault.kind === "stall";
      const given = begin(`${proxy.url}/${i}`, { body: "x".repeat(size), agent: false });
      await proxy.until(
        () => proxy.requests.length > i && (proxy.requests[i]!.complete || proxy.connections[i]!.cutBy !== undefined),
      );
      if (leaves) given.leave();
      await given.done;
      take();
    }
    await proxy.until(() => proxy.connections.every((c) => c.closedAt !== undefined));
    await server.until(() => server.connections.every((c) => c.closedAt !== undefined));

    const whole = proxy.requests.filter((r) => r.delivered === "whole").map((r) => r.request!.url);
    const received = server.received.map((r) => r.target);
    // A reset may take with it what was handed over just before; nothing is received that was not delivered.
    expect(received.filter((url) => !whole.includes(url))).toEqual([]);
    const lost = whole.filter((url) => !received.includes(url));
    expect(lost.filter((url) => proxy.connections[Number(url.slice(1))]!.cutBy !== "rst")).toEqual([]);
    const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);
    expect(sum(server.connections.map((c) => c.bytesReceived))).toBeLessThanOrEqual(
      sum(proxy.connections.map((c) => c.bytesToServer)),
    );
    for (const connection of proxy.connections) {
      expect(connection.bytesFromClient).toBe(sum(connection.requests.map((r) => r.bytes)));
      expect(connection.bytesToServer).toBe(sum(connection.requests.map((r) => r.deliveredBytes)));
      expect(connection.bytesToServer).toBeLessThanOrEqual(connection.bytesFromClient);
    }
    // The run has met all of it, or it shows nothing.
    const kinds = new Set(proxy.requests.map((r) => r.delivered));
    expect([...kinds].sort()).toEqual(["nothing", "part", "whole"]);
    expect(proxy.requests.some((r) => r.answerDiscarded)).toBe(true);
  });
});
