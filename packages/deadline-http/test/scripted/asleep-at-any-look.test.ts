// Goal: `not-sent` if and only if no byte arrived, wherever in a call the bound runs out. Method: a machine that sleeps across the bound just
// before the call's first look at the clock, then one that does before the second, and so on until a call no longer looks so often; a proxy
// counts the bytes. A request that has its socket and is cut before its first byte is the case between: it was called unknown once.
import { instantAfter, systemClock, within, type Clock } from "@holdfast/deadline-http";
import { startFaultProxy } from "@holdfast/testkit";
import { until } from "@holdfast-private/tests-machine";
import { expect, it, onTestFinished } from "vitest";
import { writersTo } from "../support/bodies.js";
import { reluctantServer } from "../support/reluctant-server.js";

const hourMs = 3_600_000;

/** Its `nth` look at the clock is an hour later than it would be. */
function sleepsBefore(nth: number): Clock & { looks(): number } {
  let looks = 0;
  const now = () => instantAfter(systemClock.now(), ++looks >= nth ? hourMs : 0);
  return Object.assign(Object.create(systemClock) as Clock, { now, looks: () => looks });
}

interface Failed {
  readonly code: string;
  readonly outcome: string;
}

it.each(["statement", "rows", "object", "file", "fetch"])(
  "DL-07 DL-27 not-sent exactly when no byte arrived, at whatever look at the clock the bound has passed: %s",
  async (kind) => {
    const server = await reluctantServer();
    const proxy = await startFaultProxy({ target: { port: server.port } });
    onTestFinished(() => proxy[Symbol.asyncDispose]());
    await using writers = writersTo(proxy.url);
    const call = writers.calls[kind]!;
    const bytesSeen = (): number => proxy.connections.reduce((sum, { bytesFromClient }) => sum + bytesFromClient, 0);
    const outcomes = new Set<string>();
    for (let nth = 1; ; nth++) {
      // On a connection that stands, and then its server's word that this request is over.
      await call(10);
      await proxy.settled();
      const before = bytesSeen();
      const clock = sleepsBefore(nth);
      const end = await within(hourMs, () => call(10), { clock }).then(
        () => null,
        (error: unknown) => error as Failed,
      );
      if (end === null && clock.looks() < nth) break;
      outcomes.add(end?.outcome ?? "answered");
      if (end !== null) expect(end.code, `look ${nth}`).toBe("DEADLINE_EXCEEDED");
      if (end?.outcome === "unknown") await until(`what look ${nth} let out arrives`, () => bytesSeen() > before);
      await proxy.settled();
      expect(end?.outcome === "not-sent", `look ${nth}: ${end?.outcome ?? "answered"}`).toBe(bytesSeen() === before);
    }
    expect([...outcomes].sort()).toContain("not-sent");
    expect([...outcomes].length, "the bound passes in more than one place").toBeGreaterThan(1);
  },
);
