// Goal: rules choose and combine faults as documented; a valve passes what its plan says. Method: no sockets.
import { describe, expect, it } from "vitest";
import { closeIdle, effect, late, rows, stallMidBody, times, trickle, type ProxiedRequest } from "@holdfast/testkit";
import { faultsOf, planOf, type FlowPlan } from "../../src/proxy/faults.js";
import { Rules } from "../../src/proxy/rules.js";
import { Valve } from "../../src/proxy/valve.js";
import { render } from "../../src/server/reply.js";

const request = (url: string, number = 1): ProxiedRequest => ({
  connection: 1,
  number,
  method: "POST",
  url,
  headers: {},
  headBytes: 50,
  bodyStart: "",
});

describe("rules", () => {
  it("DL-32 the first rule that matches counts, as often as it says, and can be taken out", () => {
    const rules = new Rules();
    rules.add({ match: (r) => r.url === "/a", times: 1, fault: { kind: "hold" } });
    const take = rules.add({ match: (r) => r.number > 1, fault: { kind: "cut-request", afterBytes: 0, by: "rst" } });
    rules.add({ match: (r) => r.url === "/a", fault: { kind: "delay", ms: (r) => 10 * r.number } });
    expect(rules.decide(request("/b"))).toMatchObject({ kinds: [], late: false });
    expect(rules.decide(request("/a", 2))).toMatchObject({ kinds: ["hold"], late: true });
    expect(rules.decide(request("/a", 2))).toMatchObject({ kinds: ["cut-request"], request: { limit: 0, cut: "rst" } });
    take();
    expect(rules.decide(request("/a", 2))).toMatchObject({ kinds: ["delay"], request: { shutMs: 20 } });
    rules.clear();
    expect(rules.decide(request("/a"))).toMatchObject({ kinds: [] });
  });

  it("DL-32 a body is waited for only while a rule may look at it", () => {
    const rules = new Rules();
    rules.add({ fault: { kind: "stall" } });
    expect(rules.looksAtBody()).toBe(false);
    rules.add({ match: () => true, times: 1, fault: { kind: "stall" } });
    expect(rules.looksAtBody()).toBe(true);
    rules.clear();
    rules.add({ match: () => true, times: 0, fault: { kind: "stall" } });
    expect(rules.looksAtBody()).toBe(false);
    rules.add({ fault: { kind: "delay", ms: () => 1 } });
    expect(rules.looksAtBody()).toBe(true);
  });

  it("DL-32 one fault each for request, answer and idle connection; two of one are refused by name", () => {
    const three = faultsOf({
      fault: [
        { kind: "stall", afterBytes: (r) => r.headBytes },
        { kind: "cut-answer", afterBytes: 7, by: "fin" },
        { kind: "close-idle", afterMs: 5, by: "rst" },
      ],
    });
    expect(planOf(three, request("/"))).toMatchObject({
      request: { limit: 50, cut: null },
      answer: { limit: 7, cut: "fin" },
      idle: { afterMs: 5, by: "rst" },
    });
    expect(() => faultsOf({ fault: [{ kind: "stall" }, { kind: "hold" }] })).toThrow(/two faults for the request/);
  });
});

describe("a valve", () => {
  const pass: FlowPlan = { shutMs: 0, limit: Infinity, cut: null, everyMs: 0 };
  const valve = (): { valve: Valve; log: string[] } => {
    const log: string[] = [];
    const made = new Valve({
      write: (bytes) => log.push(bytes.toString()),
      cut: (by) => log.push(by),
      drained: () => log.push("drained"),
    });
    return { valve: made, log };
  };

  it("DL-32 keeps everything until it has a plan and its turn", () => {
    const { valve: v, log } = valve();
    v.push(Buffer.from("a"));
    v.follow(pass);
    expect([log, v.withheld]).toEqual([[], false]);
    v.takeTurn();
    v.push(Buffer.from("b"));
    v.finish();
    expect(log).toEqual(["a", "b", "drained"]);
    v.push(Buffer.from("c"));
    expect(log).toHaveLength(3);
  });

  it("DL-32 stops at its limit until released, wherever the chunks end", () => {
    const { valve: v, log } = valve();
    v.takeTurn();
    v.follow({ ...pass, limit: 3 });
    v.push(Buffer.from("ab"));
    v.push(Buffer.from("cdef"));
    v.finish();
    expect([log.join(""), v.passed, v.withheld]).toEqual(["abc", 3, true]);
    expect([v.release(), v.release()]).toEqual([true, false]);
    expect(log.join("")).toBe("abcdefdrained");
  });

  it("DL-32 cuts when so many bytes have passed: none, some, or all; a cut is never released", () => {
    for (const limit of [0, 2, 4]) {
      const { valve: v, log } = valve();
      v.takeTurn();
      v.follow({ ...pass, limit, cut: "rst" });
      v.push(Buffer.from("abcd"));
      expect(log.join(" ")).toBe(["rst", "", "ab rst", "", "abcd rst"][limit]);
      expect(v.release()).toBe(false);
    }
  });

  it("DL-32 a request shorter than the limit of its cut passes whole", () => {
    const { valve: v, log } = valve();
    v.takeTurn();
    v.follow({ ...pass, limit: 10, cut: "fin" });
    v.push(Buffer.from("abc"));
    v.finish();
    expect(log).toEqual(["abc", "drained"]);
  });
});

describe("answers as data", () => {
  it("DL-32 faults compose, also around a function, and leave the answer as it was", async () => {
    const plain = rows("12");
    expect(effect("e", late(closeIdle(stallMidBody(plain, 1), 5), 7))).toEqual({
      ...plain,
      effect: "e",
      workMs: 7,
      delivery: { stopAt: { place: "mid-body", by: "stall", bytes: 1 }, idle: { afterMs: 5, by: "fin" } },
    });
    expect(plain.delivery).toBeUndefined();
    const worked = trickle(() => plain, 3);
    expect(typeof worked).toBe("function");
    expect(times(3, plain)).toEqual([plain, plain, plain]);
  });

  it("DL-32 framing: by length, chunked, without its end, by the end of the connection", () => {
    const text = (framing?: "length" | "chunked" | "chunked-without-end" | "close"): string => {
      const { head, body } = render({ body: "abc", ...(framing === undefined ? {} : { framing }) }, "GET");
      return head.toString() + body.toString();
    };
    expect(text()).toBe("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc");
    expect(text("chunked")).toMatch(/chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n$/);
    expect(text("chunked-without-end")).toMatch(/chunked\r\n\r\n3\r\nabc\r\n$/);
    expect(text("close")).toMatch(/Connection: close\r\n\r\nabc$/);
    expect(render({ body: "abc" }, "HEAD")).toMatchObject({ body: Buffer.alloc(0) });
    expect(render({ status: 204 }, "GET").head.toString()).not.toContain("Length");
  });
});
